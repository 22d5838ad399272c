//! Whom to believe when Postgres shows a certificate.
//!
//! Promises: `verify-full` checks chain and name, `verify-ca` the chain, and the weaker modes still check that the
//! peer holds the key it shows. One TLS stack: rustls with `aws_lc_rs`.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::StoreError;
use crate::tls;

/// Whom to believe. The file holds authorities in PEM; without one the system's are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Whoever answers.
    Anyone,
    /// Whoever has a certificate from these authorities, whatever its name.
    Signed(Option<PathBuf>),
    /// The host that the URL names.
    Named(Option<PathBuf>),
}

/// What makes TLS of a connection.
pub(super) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit("TLS", &error))?;
    let builder = match trust {
        Trust::Named(file) => builder.with_root_certificates(authorities(file.as_ref())?),
        Trust::Signed(file) => {
            let roots = Arc::new(authorities(file.as_ref())?);
            let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| unfit("its authorities", &error))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(chain)))
        }
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyPeer(provider))),
    };
    Ok(MakeRustlsConnect::new(builder.with_no_client_auth()))
}

fn authorities(file: Option<&PathBuf>) -> Result<RootCertStore, StoreError> {
    tls::roots(file.map(PathBuf::as_path)).map_err(|fault| {
        let source = fault.source().map(|source| format!(": {source}")).unwrap_or_default();
        StoreError::Unfit(format!("sslrootcert: {fault}{source}"))
    })
}

fn unfit(what: &str, error: &dyn std::error::Error) -> StoreError {
    StoreError::Unfit(format!("{what}: {error}"))
}

/// `verify-ca`: the chain counts, the name does not.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is checked last: whoever fails there has a good chain.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// `prefer` and `require`: encrypted, whoever it is.
#[derive(Debug)]
struct AnyPeer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyPeer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
