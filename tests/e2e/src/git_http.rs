//! A Git server over HTTP that wants a name and a password: git's own `http-backend`, and the little of a CGI server that
//! it needs in front of it.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, sync::Arc};

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};

/// Serves until it is dropped.
pub struct GitHttp {
    /// Of the directory; a repository's name follows.
    pub url: String,
    task: JoinHandle<()>,
}

struct Server {
    repositories: PathBuf,
    /// The header of those who may come in.
    authorization: String,
}

struct Request {
    method: String,
    path: String,
    query: String,
    /// Names in lower case.
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl GitHttp {
    /// Serves the repositories in a directory to whoever knows `user` and `password`.
    pub async fn serve(repositories: PathBuf, user: &str, password: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        let server = Arc::new(Server { repositories, authorization });
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                // git reports what goes wrong with its connection
                tokio::spawn(async move { server.answer(stream).await });
            }
        });
        Ok(Self { url, task })
    }
}

impl Drop for GitHttp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn answer(&self, stream: TcpStream) -> Result<()> {
        let mut stream = BufReader::new(stream);
        let request = read(&mut stream).await?;
        let (status, rest) = if request.header("authorization") == self.authorization {
            self.run(&request).await?
        } else {
            let refusal = "WWW-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\r\n";
            ("401 Unauthorized".to_owned(), refusal.as_bytes().to_vec())
        };
        stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n").as_bytes()).await?;
        stream.write_all(&rest).await?;
        Ok(stream.shutdown().await?)
    }

    /// The status, and headers and body as the program wrote them.
    async fn run(&self, request: &Request) -> Result<(String, Vec<u8>)> {
        let mut program = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.repositories)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", &request.method)
            .env("PATH_INFO", &request.path)
            .env("QUERY_STRING", &request.query)
            .env("CONTENT_TYPE", request.header("content-type"))
            .env("CONTENT_LENGTH", request.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", request.header("content-encoding"))
            .env("GIT_PROTOCOL", request.header("git-protocol"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run git http-backend: install the package git")?;
        if let Some(mut input) = program.stdin.take() {
            input.write_all(&request.body).await?;
        }
        let output = program.wait_with_output().await?.stdout;
        let head = output.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        let status = head
            .take_while(|line| !line.trim().is_empty())
            .find_map(|line| line.strip_prefix("Status:").map(|status| status.trim().to_owned()));
        Ok((status.unwrap_or_else(|| "200 OK".to_owned()), output))
    }
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Result<Request> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line).await? > 0, "the connection ended within the head");
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let mut words = head.first().context("no request line")?.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: BTreeMap<String, String> = head
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(Ok(0), |text| text.parse())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Request { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), headers, body })
}
