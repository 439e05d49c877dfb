//! NATS servers that ask who we are, and must show who they are: TLS, client certificates, nkeys and credentials files.

use std::{fs, path::Path, path::PathBuf};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use cluster::Nats;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa};
use serde_json::{Value, json};
use store::{Error, Expect, NatsAccount, Options};
use tempfile::TempDir;

/// Certificates in files: an authority, a server's and a client's.
struct Certificates {
    directory: TempDir,
}

impl Certificates {
    fn new() -> Result<Self> {
        let directory = TempDir::with_prefix("ballast-accounts-")?;
        let mut authority = CertificateParams::new([])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
        fs::write(directory.path().join("ca.pem"), authority.pem())?;
        for name in ["server", "client"] {
            let key = rcgen::KeyPair::generate()?;
            let mut params = CertificateParams::new(["127.0.0.1".to_owned()])?;
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let certificate = params.signed_by(&key, &authority)?;
            fs::write(directory.path().join(format!("{name}.pem")), certificate.pem())?;
            fs::write(directory.path().join(format!("{name}.key")), key.serialize_pem())?;
        }
        Ok(Self { directory })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// For the configuration of a server.
    fn tls(&self, more: &str) -> String {
        let path = |name: &str| self.file(name).display().to_string();
        format!(
            "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, {more} }}\n",
            path("server.pem"),
            path("server.key"),
            path("ca.pem")
        )
    }
}

/// Writes a key and reads it back.
async fn use_store(nats: &Nats, account: NatsAccount) -> store::Result<()> {
    let options = Options { account, ..Options::default() };
    let store = store::open(&nats.url(), options).await?;
    let revision = store.put("greeting", b"hello".as_ref().into(), Expect::Anything, None).await?;
    let entry = store.get("greeting").await?.ok_or_else(|| Error::Open("nothing was kept".into()))?;
    assert_eq!((entry.revision, entry.value.as_ref()), (revision, b"hello".as_ref()));
    Ok(())
}

fn words(answer: &store::Result<()>) -> String {
    match answer {
        Ok(()) => "used".to_owned(),
        Err(Error::Unavailable(why)) => format!("unavailable: {why}"),
        Err(error) => format!("refused: {error}"),
    }
}

#[tokio::test]
async fn servers_are_believed_by_their_certificate_and_believe_ours() -> Result<()> {
    let certificates = Certificates::new()?;
    let nats = Nats::configured(certificates.tls("verify: true")).await?;
    let ca = Some(certificates.file("ca.pem"));
    let certificate = Some((certificates.file("client.pem"), certificates.file("client.key")));

    let used = use_store(
        &nats,
        NatsAccount { ca: ca.clone(), certificate: certificate.clone(), ..NatsAccount::default() },
    );
    assert_eq!(words(&used.await), "used");
    // Without its authority the server is a stranger; without our certificate we are.
    for account in [
        NatsAccount { certificate, ..NatsAccount::default() },
        NatsAccount { ca, ..NatsAccount::default() },
        NatsAccount::default(),
    ] {
        let answer = use_store(&nats, account).await;
        assert!(answer.is_err(), "used without what it asks for");
    }
    Ok(())
}

#[tokio::test]
async fn an_nkey_names_the_user() -> Result<()> {
    let certificates = Certificates::new()?;
    let user = KeyPair::new_user();
    let config =
        format!("{}authorization {{ users: [{{ nkey: {} }}] }}\n", certificates.tls(""), user.public_key());
    let nats = Nats::configured(config).await?;
    let account = |seed: &KeyPair, name: &str| -> Result<NatsAccount> {
        let nkey = certificates.file(name);
        // as an editor leaves it
        fs::write(&nkey, format!("{}\n", seed.seed()?))?;
        Ok(NatsAccount { nkey: Some(nkey), ca: Some(certificates.file("ca.pem")), ..NatsAccount::default() })
    };
    assert_eq!(words(&use_store(&nats, account(&user, "user.nk")?).await), "used");
    let stranger = use_store(&nats, account(&KeyPair::new_user(), "stranger.nk")?).await;
    let words = words(&stranger);
    assert!(words.contains("authorization violation") && words.contains("--nats-nkey-file"), "{words}");
    Ok(())
}

#[tokio::test]
async fn a_credentials_file_names_the_user() -> Result<()> {
    let (operator, account, system) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let config = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload {{ {}: {}, {}: {} }}\n",
        token(&operator, &operator, json!({"type": "operator", "version": 2}))?,
        system.public_key(),
        account.public_key(),
        token(&operator, &account, unlimited())?,
        system.public_key(),
        token(&operator, &system, json!({"type": "account", "version": 2}))?,
    );
    let nats = Nats::configured(config).await?;
    let directory = TempDir::with_prefix("ballast-accounts-")?;
    let credentials = |signer: &KeyPair, name: &str| -> Result<NatsAccount> {
        let path = directory.path().join(name);
        write_credentials(&path, signer)?;
        Ok(NatsAccount { credentials: Some(path), ..NatsAccount::default() })
    };
    assert_eq!(words(&use_store(&nats, credentials(&account, "user.creds")?).await), "used");
    let forged = use_store(&nats, credentials(&KeyPair::new_account(), "forged.creds")?).await;
    let words = words(&forged);
    assert!(
        words.contains("authorization violation") && words.contains("--nats-credentials-file"),
        "{words}"
    );
    Ok(())
}

/// What an account may use: everything, JetStream included.
fn unlimited() -> Value {
    let names = [
        "subs",
        "conn",
        "leaf",
        "imports",
        "exports",
        "data",
        "payload",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ];
    let mut limits: serde_json::Map<String, Value> =
        names.into_iter().map(|name| (name.to_owned(), json!(-1))).collect();
    limits.insert("wildcards".to_owned(), json!(true));
    json!({"type": "account", "version": 2, "limits": limits})
}

/// A user of an account, as `nsc` writes it.
fn write_credentials(path: &Path, account: &KeyPair) -> Result<()> {
    let user = KeyPair::new_user();
    let rights =
        json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}});
    let token = token(account, &user, rights)?;
    let seed = user.seed()?;
    fs::write(
        path,
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        ),
    )?;
    Ok(())
}

/// A JWT of NATS: what `signer` says of `subject`.
fn token(signer: &KeyPair, subject: &KeyPair, claims: Value) -> Result<String> {
    let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = encoded(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
    let body = encoded(&json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": signer.public_key(), "name": "test",
        "sub": subject.public_key(), "nats": claims,
    }));
    let signed = format!("{head}.{body}");
    Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signer.sign(signed.as_bytes())?)))
}
