//! An issuer of tokens: real keys, made when the tests run, and a real key server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, crypto};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::harness::http::Reader;

/// What time it is in every test that does not say otherwise.
pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://id.example.com";
pub(crate) const AUDIENCE: &str = "https://api.example.com/mcp";
pub(crate) const SECRET: &[u8] = b"a secret of thirty-two bytes, ok";

/// A key that signs tokens.
pub(crate) struct Signer {
    pub(crate) algorithm: Algorithm,
    pub(crate) public_pem: String,
    key: EncodingKey,
    jwk: Value,
}

/// What kind of key.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Signer {
    /// A new key; RSA takes its time.
    pub(crate) fn new(kind: Kind) -> Self {
        let (rcgen_kind, algorithm) = match kind {
            Kind::Rsa => (&rcgen::PKCS_RSA_SHA256, Algorithm::RS256),
            Kind::P256 => (&rcgen::PKCS_ECDSA_P256_SHA256, Algorithm::ES256),
            Kind::P384 => (&rcgen::PKCS_ECDSA_P384_SHA384, Algorithm::ES384),
            Kind::Ed25519 => (&rcgen::PKCS_ED25519, Algorithm::EdDSA),
        };
        let pair = KeyPair::generate_for(rcgen_kind).unwrap();
        let (private, public_pem) = (pair.serialize_pem(), pair.public_key_pem());
        let (key, public) = match kind {
            Kind::Rsa => (
                EncodingKey::from_rsa_pem(private.as_bytes()),
                DecodingKey::from_rsa_pem(public_pem.as_bytes()),
            ),
            Kind::P256 | Kind::P384 => (
                EncodingKey::from_ec_pem(private.as_bytes()),
                DecodingKey::from_ec_pem(public_pem.as_bytes()),
            ),
            Kind::Ed25519 => (
                EncodingKey::from_ed_pem(private.as_bytes()),
                DecodingKey::from_ed_pem(public_pem.as_bytes()),
            ),
        };
        let jwk = serde_json::to_value(Jwk::from_decoding_key(&public.unwrap(), None).unwrap()).unwrap();
        Self { algorithm, public_pem, key: key.unwrap(), jwk }
    }

    /// The public key as a JWKS document has it.
    pub(crate) fn jwk(&self, more: Value) -> Value {
        with(self.jwk.clone(), more)
    }

    /// A token with this header (over `alg`) and these claims.
    pub(crate) fn token(&self, header: Value, claims: &Value) -> String {
        let header = with(json!({ "alg": self.algorithm }), header);
        sign(&header.to_string(), &claims.to_string(), &self.key, self.algorithm)
    }
}

/// A token of texts as they are.
pub(crate) fn sign(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = crypto::sign(signed.as_bytes(), key, algorithm).unwrap();
    format!("{signed}.{signature}")
}

/// A token signed with the shared secret, of texts as they are.
pub(crate) fn sign_with_secret(header: &str, claims: &str) -> String {
    sign(header, claims, &EncodingKey::from_secret(SECRET).unwrap(), Algorithm::HS256)
}

pub(crate) static RSA: LazyLock<Signer> = LazyLock::new(|| Signer::new(Kind::Rsa));
pub(crate) static EC: LazyLock<Signer> = LazyLock::new(|| Signer::new(Kind::P256));
pub(crate) static ED: LazyLock<Signer> = LazyLock::new(|| Signer::new(Kind::Ed25519));

/// Claims that are good now.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "iat": NOW - 60, "exp": NOW + 3600,
        "tenant_id": "acme", "sub": "u1", "sid": "s1", "scope": "billing:read billing:refund",
    })
}

/// `base` with these members set; `null` takes one out.
pub(crate) fn with(mut base: Value, changes: Value) -> Value {
    let (Value::Object(members), Value::Object(changes)) = (&mut base, changes) else {
        panic!("both must be objects")
    };
    members.extend(changes);
    members.retain(|_, value| !value.is_null());
    base
}

/// A JWKS document.
pub(crate) fn jwks(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// A key server with a certificate of its own authority.
pub(crate) struct KeyServer {
    pub(crate) url: String,
    pub(crate) ca_pem: String,
    shown: Arc<Shown>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shown {
    answer: Mutex<String>,
    asked: AtomicUsize,
    permits: Semaphore,
}

impl KeyServer {
    /// A server that shows this document.
    pub(crate) async fn start(document: &str) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = params.self_signed(&ca_key).unwrap().pem();
        let ca = Issuer::new(params, ca_key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let shown = Arc::new(Shown {
            answer: Mutex::default(),
            asked: AtomicUsize::new(0),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let accepting = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&shown)));
        let url = format!("https://localhost:{}/keys", address.port());
        let server = Self { url, ca_pem, shown, accepting };
        server.show(document);
        server
    }

    /// From now on, this document.
    pub(crate) fn show(&self, document: &str) {
        self.answer("200 OK", &[], document);
    }

    /// From now on, this answer.
    pub(crate) fn answer(&self, status: &str, headers: &[String], body: &str) {
        let headers = [headers, &[format!("content-length: {}", body.len())]].concat().join("\r\n");
        *self.shown.answer.lock().unwrap() =
            format!("HTTP/1.1 {status}\r\n{headers}\r\nconnection: close\r\n\r\n{body}");
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.shown.asked.load(Ordering::SeqCst)
    }

    /// From now on no answer leaves before [`KeyServer::release`].
    pub(crate) fn hold(&self) {
        self.shown.permits.forget_permits(usize::MAX);
    }

    /// Lets one answer go.
    pub(crate) fn release(&self) {
        self.shown.permits.add_permits(1);
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shown: Arc<Shown>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (tls, shown) = (tls.clone(), Arc::clone(&shown));
        tokio::spawn(async move {
            // A client that does not trust this server hangs up in the handshake.
            let Ok(mut socket) = tls.accept(socket).await else { return };
            if Reader::new().next(&mut socket).await.is_none() {
                return;
            }
            shown.asked.fetch_add(1, Ordering::SeqCst);
            let permit = shown.permits.acquire().await.unwrap();
            permit.forget();
            let answer = shown.answer.lock().unwrap().clone();
            let written = socket.write_all(answer.as_bytes()).await;
            let closed = socket.shutdown().await;
            drop((written, closed));
        });
    }
}
