//! The certificates of the listener, made once and kept in the data directory.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::ListenError;

pub struct Certs {
    pub ca_pem: String,
    pub server: Arc<ServerConfig>,
}

/// Reads `ca.crt`, `server.crt` and `server.key` from `dir`, or makes them.
pub fn load(dir: &Path, address: IpAddr) -> Result<Certs, ListenError> {
    let (ca_path, cert_path, key_path) = (dir.join("ca.crt"), dir.join("server.crt"), dir.join("server.key"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| ListenError::Files { path, source }
    };
    if !(ca_path.exists() && cert_path.exists() && key_path.exists()) {
        let made = make(address).map_err(ListenError::Certificates)?;
        fs::write(&ca_path, &made.ca).map_err(failed(&ca_path))?;
        fs::write(&cert_path, &made.cert).map_err(failed(&cert_path))?;
        disk::write_private(&key_path, made.key.as_bytes()).map_err(failed(&key_path))?;
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(failed(path));
    let (ca_pem, cert, key) = (read(&ca_path)?, read(&cert_path)?, read(&key_path)?);
    let unusable = |what: &str| ListenError::Unusable { what: what.to_owned(), dir: dir.to_owned() };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(cert.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| unusable("server.crt"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| unusable("server.key"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable("the TLS provider"))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|_| unusable("server.crt"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Certs { ca_pem, server: Arc::new(config) })
}

struct Made {
    ca: String,
    cert: String,
    key: String,
}

fn make(address: IpAddr) -> Result<Made, rcgen::Error> {
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let ca_key = KeyPair::generate()?;
    let mut ca = named("ballast-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_cert = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

    let key = KeyPair::generate()?;
    let mut params = named("ballast");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
        params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if !address.is_unspecified() && !addresses.contains(&address) {
        addresses.push(address);
    }
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    let cert = params.signed_by(&key, &issuer)?;
    Ok(Made { ca: ca_cert.pem(), cert: cert.pem(), key: key.serialize_pem() })
}
