//! Whom the gate trusts when it opens a TLS connection.
//!
//! Promises: the authorities of a file and no others, or the system's where no file is named; one TLS stack for all.
//!
//! Absent on purpose: any way to trust everybody. Where that is asked for (Postgres' `sslmode=require`), the store has
//! it to itself.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto};

/// Why no connection could be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// The file of authorities cannot be read.
    #[error("the certificates in {} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is none in the file.
    #[error("{} has no certificate in it", .0.display())]
    Empty(PathBuf),
    /// The system has none.
    #[error("the system has no certificate authorities: install ca-certificates, or name a ca_file")]
    NoSystemRoots,
    /// The TLS library refuses its own defaults.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// Whom a client trusts, and its side of TLS.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: RootCertStore,
    client: ClientConfig,
}

impl Trust {
    /// Trust in the authorities of this file, or in the system's.
    pub fn read(ca_file: Option<&Path>) -> Result<Self, TlsFault> {
        let roots = roots(ca_file)?;
        Ok(Self { client: trusting(roots.clone())?, roots })
    }

    /// Whether it is trust in the same authorities.
    pub fn is_like(&self, other: &Self) -> bool {
        self.roots.roots == other.roots.roots
    }

    /// The client's side.
    pub fn client(&self) -> ClientConfig {
        self.client.clone()
    }
}

fn trusting(roots: RootCertStore) -> Result<ClientConfig, TlsFault> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsFault::Setup)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The authorities to trust.
pub fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsFault> {
    let mut store = RootCertStore::empty();
    let Some(path) = ca_file else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if store.is_empty() { Err(TlsFault::NoSystemRoots) } else { Ok(store) };
    };
    let in_file = |source: Box<dyn Error + Send + Sync>| TlsFault::File { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(|fault| in_file(fault.into()))?;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        store
            .add(certificate.map_err(|fault| in_file(fault.to_string().into()))?)
            .map_err(|fault| in_file(fault.into()))?;
    }
    if store.is_empty() { Err(TlsFault::Empty(path.to_owned())) } else { Ok(store) }
}
