//! A certificate authority of the test's own.
//!
//! Promises: what it signs is for `localhost`, and nothing on the machine trusts it by itself.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// What a TLS server under test needs, and what its clients must trust.
pub(crate) struct Authority {
    /// The authority's certificate in PEM.
    pub(crate) pem: String,
    /// A server that shows a certificate for `localhost`.
    pub(crate) acceptor: TlsAcceptor,
}

impl Authority {
    /// A new authority and one certificate of it.
    pub(crate) fn new() -> Self {
        let ca_key = KeyPair::generate().expect("a key");
        let mut ca = CertificateParams::new(Vec::new()).expect("no names are good names");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = ca.self_signed(&ca_key).expect("a certificate").pem();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().expect("a key");
        let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a good name");
        let certificate = server.signed_by(&key, &issuer).expect("a certificate");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider's own versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
            )
            .expect("the certificate is of that key");
        Self { pem, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}
