use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::*;

/// The client's side, spelled out.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: ReadHalf<DuplexStream>,
    deflate: Deflater,
}

impl Client {
    fn connect() -> (Self, Link, mpsc::Receiver<Stream>) {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (from, to) = tokio::io::split(theirs);
        let (link, streams) = serve(from, to).unwrap();
        let (from, to) = tokio::io::split(ours);
        (Self { to, from, deflate: Deflater::new().unwrap() }, link, streams)
    }

    async fn open(&mut self, id: u32, headers: &[(&str, &str)]) {
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        payload.extend(self.deflate.write(headers));
        self.to.write_all(&control(SYN_STREAM, 0, &payload)).await.unwrap();
    }

    async fn send(&mut self, id: u32, flags: u8, data: &[u8]) {
        let mut frame = id.to_be_bytes().to_vec();
        frame.extend((u32::from(flags) << 24 | data.len() as u32).to_be_bytes());
        frame.extend(data);
        self.to.write_all(&frame).await.unwrap();
    }

    /// The next frame: its first word, flags and payload.
    async fn next(&mut self) -> (u32, u8, Vec<u8>) {
        let first = self.from.read_u32().await.unwrap();
        let second = self.from.read_u32().await.unwrap();
        let mut payload = vec![0; (second & 0x00ff_ffff) as usize];
        self.from.read_exact(&mut payload).await.unwrap();
        (first, (second >> 24) as u8, payload)
    }
}

fn of(kind: u16) -> u32 {
    u32::from(VERSION) << 16 | u32::from(kind)
}

#[tokio::test]
async fn a_stream_carries_both_ways_and_each_half_closes_by_itself() {
    let (mut client, link, mut streams) = Client::connect();
    client.open(1, &[("Streamtype", "data"), ("Port", "80")]).await;
    let (first, _, payload) = client.next().await;
    assert_eq!((first, &payload[..4]), (of(SYN_REPLY), &[0, 0, 0, 1][..]));
    let mut stream = streams.recv().await.unwrap();
    assert_eq!((stream.header("streamtype"), stream.header("port"), stream.header("x")), ("data", "80", ""));

    client.send(1, 0, b"to the ").await;
    client.send(1, FIN, b"pod").await;
    let mut text = String::new();
    stream.io.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "to the pod");
    stream.io.write_all(b"and back").await.unwrap();
    assert_eq!(client.next().await, (1, 0, b"and back".to_vec()));
    drop(stream);
    assert_eq!(client.next().await, (1, FIN, Vec::new()));

    // Its ping is answered; ours are not confused with answers.
    client.to.write_all(&control(PING, 0, &[0, 0, 0, 7])).await.unwrap();
    assert_eq!(client.next().await, (of(PING), 0, vec![0, 0, 0, 7]));
    client.to.write_all(&control(PING, 0, &[0, 0, 0, 8])).await.unwrap();
    client.to.shutdown().await.unwrap();
    link.finish().await;
    assert_eq!(client.next().await, (of(GOAWAY), 0, vec![0; 8]));
    assert_eq!(client.from.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn streams_are_counted_until_both_sides_have_closed_them() {
    let (mut client, _link, mut streams) = Client::connect();
    let mut open = Vec::new();
    for n in 0..MOST_STREAMS as u32 {
        client.open(2 * n + 1, &[]).await;
        open.push(streams.recv().await.unwrap());
        assert_eq!(client.next().await.0, of(SYN_REPLY));
        // Closed by the client alone.
        client.send(2 * n + 1, FIN, b"").await;
    }
    client.open(1001, &[]).await;
    let (first, _, payload) = client.next().await;
    assert_eq!(
        (first, payload),
        (of(RST_STREAM), [1001_u32.to_be_bytes(), REFUSED_STREAM.to_be_bytes()].concat())
    );
    open.pop();
    assert_eq!(client.next().await.1, FIN);
}

#[tokio::test]
async fn a_client_that_speaks_something_else_is_gone() {
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff], &[0xff; 8]] {
        let (mut client, link, _streams) = Client::connect();
        client.to.write_all(nonsense).await.unwrap();
        if nonsense[0] & 0x80 == 0 {
            // As data, it is too long to ever end.
            client.to.shutdown().await.unwrap();
        }
        link.gone().cancelled().await;
    }
}
