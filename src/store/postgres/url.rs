//! The Postgres URL, checked, and what of it is ours rather than the driver's: `sslmode` and `sslrootcert`.
//!
//! Promises: libpq's meaning of both. A URL's text, which may hold a password, is in no error.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::tls::Trust;
use crate::store::StoreError;

/// How long one host may take to accept a connection, where the URL does not say.
const CONNECT: Duration = Duration::from_secs(2);

/// How long sent bytes may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// What a URL says.
pub(super) struct Address {
    /// For the driver.
    pub(super) config: Config,
    /// Whom to believe in TLS.
    pub(super) trust: Trust,
}

/// Reads `url`.
pub(super) fn parse(url: &str) -> Result<Address, StoreError> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let mut ours = Ours::default();
    let mut theirs = Vec::new();
    for parameter in query.split('&').filter(|text| !text.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "sslmode" => ours.mode = decoded(value),
            "sslrootcert" => ours.root = Some(decoded(value)),
            _ => theirs.push(parameter),
        }
    }
    let mut config = Config::from_str(&format!("{place}?{}", theirs.join("&")))
        .map_err(|error| StoreError::Unfit(format!("its URL is not usable ({})", reason(&error))))?;
    let (mode, trust) = ours.trust()?;
    config.ssl_mode(mode);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    if config.get_application_name().is_none() {
        config.application_name("oncegate");
    }
    Ok(Address { config, trust })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The driver's own reason: it names the parameter, never its value.
fn reason(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[derive(Default)]
struct Ours {
    mode: String,
    root: Option<String>,
}

impl Ours {
    fn trust(self) -> Result<(SslMode, Trust), StoreError> {
        let file = self.root.filter(|path| path != "system").map(PathBuf::from);
        match self.mode.as_str() {
            "disable" => Ok((SslMode::Disable, Trust::Anyone)),
            "" | "prefer" => Ok((SslMode::Prefer, Trust::Anyone)),
            // As libpq has it: who names an authority wants it asked.
            "require" => Ok((SslMode::Require, file.map_or(Trust::Anyone, |file| Trust::Signed(Some(file))))),
            "verify-ca" => Ok((SslMode::Require, Trust::Signed(file))),
            "verify-full" => Ok((SslMode::Require, Trust::Named(file))),
            other => Err(StoreError::Unfit(format!(
                "its URL says sslmode={other}; use disable, prefer, require, verify-ca or verify-full"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Trust, parse};
    use tokio_postgres::config::SslMode;

    fn check(query: &str, mode: SslMode, trust: &Trust) {
        let address = parse(&format!("postgres://u:p@db:6432/gate?{query}")).unwrap();
        assert_eq!((address.config.get_ssl_mode(), &address.trust), (mode, trust), "{query}");
        assert_eq!(address.config.get_dbname(), Some("gate"));
    }

    #[test]
    fn sslmode_means_what_libpq_means() {
        check("", SslMode::Prefer, &Trust::Anyone);
        check("sslmode=disable", SslMode::Disable, &Trust::Anyone);
        check("connect_timeout=3&sslmode=require", SslMode::Require, &Trust::Anyone);
        check(
            "sslmode=require&sslrootcert=%2Fca.pem",
            SslMode::Require,
            &Trust::Signed(Some("/ca.pem".into())),
        );
        check("sslmode=verify-ca", SslMode::Require, &Trust::Signed(None));
        check("sslmode=verify-full&sslrootcert=system", SslMode::Require, &Trust::Named(None));
    }

    #[test]
    fn a_bad_url_is_explained_without_its_password() {
        for query in ["sslmode=yes", "colour=blue", "connect_timeout=soon"] {
            let told = parse(&format!("postgres://u:hunter2@db/gate?{query}")).err().unwrap().to_string();
            let name = query.split('=').next().unwrap();
            assert!(told.contains(name) && !told.contains("hunter2"), "{told}");
        }
    }
}
