//! The settings of service tokens: who calls in a service's own name, with which token, for whom.
//!
//! Promises: a token cannot be guessed, and is one service's alone: two that are alike, or one that is the operators' too,
//! would let a caller be whichever comes first. Nothing here has a default.
//!
//! Several files for one service are several tokens for it: so a token is changed without a moment in which none is good,
//! and its claims stay the same user's.

use std::collections::BTreeMap;

use toml::Spanned;

use super::checked::ServiceTokenConfig;
use super::checks::Checks;
use super::files::{self, AdminToken, ServiceToken};
use super::number::Texts;
use super::raw::RawServiceToken;
use crate::domain::actor::{as_tenant, is_scope};
use crate::domain::tenants::Tenants;

/// Stands for every tenant.
const EVERY: &str = "*";

/// The longest name of a service, in bytes: it is the user of its calls.
const LONGEST_NAME: usize = 64;

impl Checks<'_> {
    pub(super) fn service_tokens(
        &mut self,
        raw: &BTreeMap<String, Spanned<RawServiceToken>>,
        admin: Option<&AdminToken>,
    ) -> Option<Vec<ServiceTokenConfig>> {
        let mut taken: Vec<(String, &str)> =
            admin.map(|admin| ("admin_token_file".to_owned(), admin.text())).into_iter().collect();
        let made: Vec<_> = raw.iter().map(|(name, table)| self.service_token(name, table)).collect();
        let mut sound = true;
        for (config, table) in made.iter().zip(raw.values()) {
            let Some(config) = config else { continue };
            let own = format!("service_tokens.{}", config.name);
            for token in &config.tokens {
                if let Some((other, _)) = taken.iter().find(|(_, text)| *text == token.text()) {
                    let at = table.get_ref().token_file.as_ref().map_or_else(|| table.span(), Spanned::span);
                    let message = if *other == own {
                        format!("{own} names the same token twice")
                    } else {
                        format!("the token of {own} is that of {other} too")
                    };
                    self.at_with(&Spanned::new(at, ()), message, "make one for each: openssl rand -hex 32");
                    sound = false;
                }
                taken.push((own.clone(), token.text()));
            }
        }
        let made: Option<Vec<_>> = made.into_iter().collect();
        made.filter(|_| sound)
    }

    fn service_token(&mut self, name: &str, table: &Spanned<RawServiceToken>) -> Option<ServiceTokenConfig> {
        let raw = table.get_ref();
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let named = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(sound);
        if !named {
            let help = "use up to 64 letters, digits, - _ and .";
            self.at_with(table, format!("\"{name}\" cannot name a service"), help);
        }
        let key = |key: &str| format!("service_tokens.{name}.{key}");
        let token_file = self.some_of(&key("token_file"), table, raw.token_file.as_ref());
        let tokens = token_file.and_then(|files| self.tokens(files));
        let scopes = self.some_of(&key("scopes"), table, raw.scopes.as_ref()).and_then(|scopes| {
            let help = "a scope is printable ASCII without blanks, \" and \\";
            self.each(Some(scopes), |text| is_scope(text).then(|| text.to_owned()), "a scope", help)
        });
        let tenants = self.some_of(&key("tenants"), table, raw.tenants.as_ref());
        let tenants = tenants.and_then(|tenants| self.tenants_of(&key("tenants"), tenants));
        let (tokens, scopes, tenants) = (tokens?, scopes?, tenants?);
        named.then(|| ServiceTokenConfig { name: name.to_owned(), tokens, scopes, tenants })
    }

    /// A list that must be there, with something in it.
    fn some_of<'r>(
        &mut self,
        key: &str,
        table: &Spanned<RawServiceToken>,
        set: Option<&'r Spanned<Texts>>,
    ) -> Option<&'r Spanned<Texts>> {
        match set {
            None => self.at(table, format!("{key} is missing")),
            Some(texts) if texts.get_ref().0.is_empty() => self.at(texts, format!("{key} is empty")),
            Some(texts) => return Some(texts),
        }
        None
    }

    fn tokens(&mut self, paths: &Spanned<Texts>) -> Option<Vec<ServiceToken>> {
        let read = paths.get_ref().0.iter().map(|path| {
            files::read_service_token(path.as_ref()).map_err(|message| self.at(paths, message)).ok()
        });
        // All of them are read, so that every mistake is told at once.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    fn tenants_of(&mut self, key: &str, tenants: &Spanned<Texts>) -> Option<Tenants> {
        let Texts(names) = tenants.get_ref();
        let every = names.iter().any(|name| name == EVERY);
        if every && names.len() > 1 {
            self.at_with(tenants, format!("{key} names \"*\" and others"), "\"*\" alone is every tenant");
            return None;
        }
        for name in names.iter().filter(|_| !every) {
            if let Err(fault) = as_tenant(name) {
                self.at(tenants, format!("\"{name}\" in {key} can be no tenant: {fault}"));
                return None;
            }
        }
        Some(Tenants::of(names.iter().cloned()))
    }
}
