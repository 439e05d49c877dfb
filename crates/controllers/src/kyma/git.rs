//! Sources in Git: which commit a reference names now. The pods fetch that very commit.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

mod place;

use api::kyma::{Auth, AuthType, GitRepository};
use engine::{Key, Queue};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::{process::Command, sync::Semaphore};
use tracing::debug;

pub use self::place::GitPolicy;
pub(super) use self::place::Place;

/// A credential helper: answers from variables, so that no secret stands in a command line.
pub(super) const ASK_SECRET: &str = r#"!f() { test -n "${GIT_USERNAME:-}" && echo "username=$GIT_USERNAME" && echo "password=$GIT_PASSWORD"; }; f"#;

/// `fetch URL COMMIT DIRECTORY HELPER KEY`, where HELPER is the setting of a helper that is bound to the URL's server. A
/// server that gives no single commit is asked for all branches and tags. ssh takes a key only from a file that is its
/// user's alone, which a mounted one is not; beside it there may be the keys of the server. Settings and helpers of the
/// machine are left out (they would write the password down), and redirects are not followed: they would take the
/// password with them.
pub(super) const FETCH: &str = r#"set -eu
url=$1 commit=$2 helper=$4 key=$5
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ALLOW_PROTOCOL=http:https:git:ssh
if [ -e "$key" ]; then
  copy=$(mktemp)
  trap 'rm -f "$copy"' EXIT
  { cat "$key"; echo; } > "$copy"
  known=${key%/*}/known_hosts
  if [ -e "$known" ]; then hosts="-o StrictHostKeyChecking=yes -o UserKnownHostsFile=$known"
  else hosts="-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/dev/null"; fi
  export GIT_SSH_COMMAND="ssh -F none -i $copy -o IdentitiesOnly=yes -o BatchMode=yes -o GlobalKnownHostsFile=/dev/null $hosts"
fi
run() { git -c safe.directory='*' -c http.followRedirects=false -c credential.helper= -c "$helper" "$@"; }
cd "$3"
run init -q .
run fetch -q --depth 1 "$url" "$commit" || run fetch -q "$url" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*'
run checkout -q --force --detach "$commit"
"#;

const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known of the sources of all Functions. Asking happens beside the controller: a slow server holds up nobody.
#[derive(Clone)]
pub(super) struct Commits {
    client: Client,
    scratch: PathBuf,
    policy: Arc<GitPolicy>,
    every: Duration,
    queue: Arc<Queue<Key>>,
    known: Arc<Mutex<HashMap<Key, Known>>>,
    turns: Arc<Semaphore>,
}

struct Known {
    source: GitRepository,
    answer: Option<Answer>,
    asked: Timestamp,
    asking: bool,
}

/// A commit, or why there is none.
pub(super) type Answer = Result<String, String>;

/// What is known of one source, and when it is asked for again.
pub(super) struct Latest {
    pub answer: Option<Answer>,
    pub next: Timestamp,
}

impl Commits {
    pub fn new(client: Client, options: &super::Options, queue: Arc<Queue<Key>>) -> Self {
        Self {
            client,
            scratch: options.scratch.clone(),
            policy: Arc::new(options.git.clone()),
            every: options.git_poll_period,
            queue,
            known: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// What is known by now. If that is too old, the server is asked; the key comes again with the answer.
    pub fn latest(&self, key: &Key, source: &GitRepository, now: Timestamp) -> Latest {
        let every = SignedDuration::try_from(self.every).unwrap_or(SignedDuration::MAX);
        let mut known = self.known();
        let entry = known.entry(key.clone()).or_insert_with(|| Known::new(source));
        if entry.source != *source {
            *entry = Known::new(source);
        }
        let due = entry.asked.checked_add(every).unwrap_or(Timestamp::MAX);
        if !entry.asking && due <= now {
            entry.asking = true;
            entry.asked = now;
            tokio::spawn(self.clone().ask(key.clone(), source.clone()));
        }
        let next = entry.asked.checked_add(every).unwrap_or(Timestamp::MAX);
        Latest { answer: entry.answer.clone(), next }
    }

    pub fn forget(&self, key: &Key) {
        self.known().remove(key);
    }

    async fn ask(self, key: Key, source: GitRepository) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        let answer = match tokio::time::timeout(PATIENCE, self.resolve(&key, &source)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("{} did not answer within {} s", source.url, PATIENCE.as_secs())),
        };
        debug!(%key, ?answer, "asked for the latest commit");
        {
            let mut known = self.known();
            let Some(entry) = known.get_mut(&key).filter(|entry| entry.source == source) else { return };
            entry.answer = Some(answer);
            entry.asking = false;
        }
        self.queue.add(key);
    }

    async fn resolve(&self, key: &Key, source: &GitRepository) -> Answer {
        let place = Place::of(&source.url)?;
        let credentials = match &source.auth {
            Some(auth) => self.credentials(key, auth).await?,
            None => Credentials::default(),
        };
        let address = place.address(&self.policy).await?;
        if !credentials.variables.is_empty() {
            place.check_credentials(address, &self.policy)?;
        }
        let server = Server { place, address, scratch: &self.scratch, policy: &self.policy };
        remote_commit(source, &server, &credentials).await
    }

    async fn credentials(&self, key: &Key, auth: &Auth) -> Result<Credentials, String> {
        let secret = self.secret(&key.namespace, &auth.secret_name).await?;
        let entry = |name: &str| {
            let missing = format!("Secret {} has no entry {name:?}", auth.secret_name);
            secret.get(name).cloned().ok_or(missing)
        };
        match auth.type_ {
            AuthType::Basic => {
                let (username, password) = (entry("username")?, entry("password")?);
                let hidden = vec![password.clone()];
                let variables = BTreeMap::from([("GIT_USERNAME", username), ("GIT_PASSWORD", password)]);
                Ok(Credentials { variables, hidden, ..Credentials::default() })
            }
            AuthType::Key => {
                let text = entry("key")?;
                let hidden = text.lines().map(str::to_owned).collect();
                let write = |name: &str, text: &str| {
                    SecretFile::write(&self.scratch, key, name, text)
                        .map_err(|error| format!("cannot write to {}: {error}", self.scratch.display()))
                };
                let key_file = Some(write("key", &text)?);
                let known_hosts = secret.get("known_hosts").map(|hosts| write("hosts", hosts)).transpose()?;
                Ok(Credentials { key_file, known_hosts, hidden, ..Credentials::default() })
            }
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<HashMap<String, String>, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret =
            secrets.get(name).await.map_err(|error| format!("cannot read Secret {name}: {error}"))?;
        let entries = secret.data.into_iter().flatten();
        Ok(entries.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?))).collect())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn new(source: &GitRepository) -> Self {
        Self { source: source.clone(), answer: None, asked: Timestamp::MIN, asking: false }
    }
}

/// What a Secret gives for one question to a Git server.
#[derive(Default)]
struct Credentials {
    variables: BTreeMap<&'static str, String>,
    key_file: Option<SecretFile>,
    /// The keys by which the server is known.
    known_hosts: Option<SecretFile>,
    /// What no message may contain.
    hidden: Vec<String>,
}

impl Credentials {
    fn hide(&self, words: &str) -> String {
        let hidden = self.hidden.iter().filter(|hidden| !hidden.is_empty());
        hidden.fold(words.to_owned(), |words, hidden| words.replace(hidden, "***"))
    }
}

/// Whom git asks, and from where.
struct Server<'a> {
    place: Place,
    address: IpAddr,
    scratch: &'a Path,
    policy: &'a GitPolicy,
}

fn ssh_command(server: &Server<'_>, credentials: &Credentials) -> String {
    let Place { host, .. } = &server.place;
    let mut ssh = format!(
        "ssh -F none -o BatchMode=yes -o GlobalKnownHostsFile=/dev/null -o HostName={} -o HostKeyAlias={host}",
        server.address
    );
    if let Some(SecretFile(file)) = &credentials.key_file {
        ssh.push_str(&format!(" -i '{}' -o IdentitiesOnly=yes", file.display()));
    }
    match &credentials.known_hosts {
        Some(SecretFile(file)) => {
            ssh.push_str(&format!(
                " -o StrictHostKeyChecking=yes -o UserKnownHostsFile='{}'",
                file.display()
            ));
        }
        None => ssh.push_str(" -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/dev/null"),
    }
    ssh
}

fn ls_remote(source: &GitRepository, server: &Server<'_>, credentials: &Credentials) -> Command {
    let Place { host, port, .. } = &server.place;
    let helper = match credentials.variables.is_empty() {
        true => "credential.helper=".to_owned(),
        false => server.place.helper(ASK_SECRET),
    };
    let address = match server.address {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let mut command = Command::new("git");
    command
        .env_clear()
        .envs(&server.policy.environment)
        .envs(&credentials.variables)
        // settings and helpers of the machine are for the people on it
        .env("HOME", server.scratch)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        // file: would read the controller's own disk
        .env("GIT_ALLOW_PROTOCOL", "http:https:git:ssh")
        .env("GIT_SSH_COMMAND", ssh_command(server, credentials))
        // a redirect would take the password along, and lead to addresses that nobody has checked
        .args(["-c", "http.followRedirects=false", "-c", "credential.helper=", "-c", &helper])
        .args(["-c", &format!("http.curloptResolve={host}:{port}:{address}")])
        .args(["ls-remote", "--", &source.url])
        .args([&source.reference, &format!("{}^{{}}", source.reference)])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn remote_commit(source: &GitRepository, server: &Server<'_>, credentials: &Credentials) -> Answer {
    let mut command = ls_remote(source, server, credentials);
    let output = command.output().await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "the program git is needed to find the latest commit: install it".to_owned()
        }
        _ => format!("cannot run git: {error}"),
    })?;
    if !output.status.success() {
        let words = credentials.hide(String::from_utf8_lossy(&output.stderr).trim());
        let with = source.auth.as_ref().map(|auth| {
            format!(" with Secret {} (spec.source.gitRepository.auth.secretName)", auth.secret_name)
        });
        let with = with.unwrap_or_default();
        return Err(format!("cannot ask {} for {}{with}: {words}", source.url, source.reference));
    }
    let refs = String::from_utf8_lossy(&output.stdout);
    pick(&refs, &source.reference)
        .ok_or_else(|| format!("{} has no branch, tag or commit {}", source.url, source.reference))
}

/// A branch before a tag of the same name; of an annotated tag the commit it stands for. A full commit names itself.
fn pick(refs: &str, reference: &str) -> Option<String> {
    let full = |prefix: &str, suffix: &str| format!("{prefix}{reference}{suffix}");
    let wanted = [
        full("refs/heads/", ""),
        full("refs/tags/", "^{}"),
        full("refs/tags/", ""),
        full("", "^{}"),
        reference.to_owned(),
    ];
    let found = wanted.iter().find_map(|wanted| {
        refs.lines().filter_map(|line| line.split_once('\t')).find(|(_, name)| name == wanted)
    });
    let is_commit = reference.len() == 40 && reference.chars().all(|c| c.is_ascii_hexdigit());
    found.map(|(commit, _)| commit.to_owned()).or_else(|| is_commit.then(|| reference.to_ascii_lowercase()))
}

/// A part of a Secret on disk for as long as ssh needs it.
struct SecretFile(PathBuf);

impl SecretFile {
    fn write(directory: &Path, key: &Key, name: &str, text: &str) -> io::Result<Self> {
        use std::{
            fs::{self, OpenOptions},
            io::Write,
            os::unix::fs::OpenOptionsExt,
        };
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("{}.{}.{name}", key.namespace, key.name));
        // what a killed process left must not lend its permissions
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = Self(path);
        file.write_all(text.trim_end().as_bytes())?;
        // ssh refuses a key without a line end
        file.write_all(b"\n")?;
        Ok(written)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_repeated() {
        let hidden = vec!["hunter2".to_owned(), String::new()];
        let credentials = Credentials { hidden, ..Credentials::default() };
        assert_eq!(credentials.hide("no hunter2 here"), "no *** here");
    }

    #[test]
    fn a_reference_is_a_branch_or_a_tag_or_a_commit() {
        let refs = "1111\trefs/heads/main\n2222\trefs/tags/main\n3333\trefs/tags/v1\n4444\trefs/tags/v1^{}\n\
                    5555\trefs/heads/feature/main\n6666\tHEAD\n";
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (reference, expected) in [
            ("main", Some("1111")),
            ("v1", Some("4444")),
            ("HEAD", Some("6666")),
            ("refs/heads/main", Some("1111")),
            (commit, Some(commit)),
            ("feature", None),
            ("0123456", None),
        ] {
            assert_eq!(pick(refs, reference).as_deref(), expected, "{reference}");
        }
    }

    fn source(url: &str) -> GitRepository {
        serde_json::from_value(serde_json::json!({"url": url, "reference": "main", "baseDir": "/"})).unwrap()
    }

    /// Answers each request with `head` and keeps what came in.
    async fn server(head: String) -> (std::net::SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (seen, received) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => break,
                    }
                }
                let _ = seen.send(String::from_utf8_lossy(&request).into_owned());
                let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (addr, received)
    }

    /// The server asks for a password; another one that it points to must never see it.
    #[tokio::test]
    async fn a_redirect_gets_no_password() {
        let policy = GitPolicy {
            private_addresses: true,
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
            ..GitPolicy::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let (thief, mut stolen) =
            server("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"".to_owned()).await;
        let (front, mut asked) =
            server(format!("302 Found\r\nLocation: http://{thief}/it.git/info/refs")).await;
        for (addr, is_asked) in [(front, true), (thief, false)] {
            let url = format!("http://{addr}/it.git");
            let place = Place::of(&url).unwrap();
            let variables =
                BTreeMap::from([("GIT_USERNAME", "me".to_owned()), ("GIT_PASSWORD", "hunter2".to_owned())]);
            let credentials = Credentials { variables, ..Credentials::default() };
            let address = place.address(&policy).await.unwrap();
            let server = Server { place, address, scratch: directory.path(), policy: &policy };
            let refused = remote_commit(&source(&url), &server, &credentials).await;
            assert!(refused.is_err(), "{refused:?}");
            if is_asked {
                assert!(asked.recv().await.is_some());
                assert!(stolen.try_recv().is_err(), "the redirect was followed");
            }
        }
        // its own server does get it
        let mut requests = Vec::new();
        while let Ok(request) = stolen.try_recv() {
            requests.push(request);
        }
        assert!(requests.iter().any(|request| request.contains("Authorization: Basic")), "{requests:?}");
    }
}
