//! Header blocks: names and values, deflated by one stream for the whole connection and each direction.

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Far more than the handful of short headers that streams are opened with.
const LARGEST: usize = 16 << 10;

pub type Headers = Vec<(String, String)>;

pub struct Inflater(Decompress);

pub struct Deflater(Compress);

// === impl Inflater ===

impl Inflater {
    pub fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub fn read(&mut self, block: &[u8]) -> io::Result<Headers> {
        let mut plain = Vec::with_capacity(LARGEST);
        let mut rest = block;
        loop {
            let before = self.0.total_in();
            let result = self.0.decompress_vec(rest, &mut plain, FlushDecompress::Sync);
            let taken = usize::try_from(self.0.total_in() - before).map_err(io::Error::other)?;
            rest = rest.get(taken..).unwrap_or_default();
            match result {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(invalid)?;
                }
                Err(error) => return Err(invalid(error)),
                Ok(_) if rest.is_empty() => break,
                Ok(Status::Ok) if taken > 0 && plain.len() < plain.capacity() => {}
                Ok(_) => return Err(invalid("a header block is too large")),
            }
        }
        parse(&plain).ok_or_else(|| invalid("a header block is malformed"))
    }
}

// === impl Deflater ===

impl Deflater {
    pub fn new() -> io::Result<Self> {
        let mut deflate = Compress::new(Compression::fast(), true);
        deflate.set_dictionary(&dictionary()).map_err(invalid)?;
        Ok(Self(deflate))
    }

    /// The block of no headers at all, which is what every stream is accepted with.
    pub fn empty(&mut self) -> io::Result<Vec<u8>> {
        let mut block = Vec::with_capacity(64);
        self.0.compress_vec(&0_u32.to_be_bytes(), &mut block, FlushCompress::Sync)?;
        Ok(block)
    }

    #[cfg(test)]
    pub fn write(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend(text.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() + 64);
        self.0.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
        block
    }
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    fn number(plain: &mut &[u8]) -> Option<usize> {
        let (number, rest) = plain.split_first_chunk::<4>()?;
        *plain = rest;
        usize::try_from(u32::from_be_bytes(*number)).ok()
    }
    fn text(plain: &mut &[u8]) -> Option<String> {
        let length = number(plain)?;
        let (text, rest) = plain.split_at_checked(length)?;
        *plain = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
    let count = number(&mut plain)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        headers.push((text(&mut plain)?.to_ascii_lowercase(), text(&mut plain)?));
    }
    Some(headers)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// What both ends of SPDY/3 prime their compression with: common words, each with its length, and a tail.
fn dictionary() -> Vec<u8> {
    const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
        accept-language accept-ranges age allow authorization cache-control connection content-base \
        content-encoding content-language content-length content-location content-md5 content-range \
        content-type date etag expect expires from host if-match if-modified-since if-none-match if-range \
        if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
        proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
        user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public \
        set-cookie keep-alive origin";
    const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417\
        502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 \
        Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service \
        UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, \
        Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,\
        text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,\
        utf-,*,enq=0.";
    let mut dictionary = Vec::with_capacity(1423);
    for word in WORDS.split(' ') {
        let word = word.replace('_', " ");
        dictionary.extend((word.len() as u32).to_be_bytes());
        dictionary.extend(word.bytes());
    }
    dictionary.extend(TAIL.bytes());
    dictionary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_one_of_the_protocol() {
        assert_eq!(dictionary().len(), 1423);
        // Its checksum stands in the first block of every connection.
        let mut deflate = Compress::new(Compression::fast(), true);
        assert_eq!(deflate.set_dictionary(&dictionary()).unwrap(), 0xe3c6_a7c2);
    }

    #[test]
    fn blocks_of_one_connection_are_read_in_turn() {
        let (mut deflate, mut inflate) = (Deflater::new().unwrap(), Inflater::new());
        for port in ["80", "8080"] {
            let block = deflate.write(&[("Port", port), ("streamType", "data")]);
            let read = inflate.read(&block).unwrap();
            assert_eq!(
                read,
                [("port".to_owned(), port.to_owned()), ("streamtype".to_owned(), "data".to_owned())]
            );
        }
        assert_eq!(inflate.read(&deflate.empty().unwrap()).unwrap(), []);
    }

    #[test]
    fn blocks_that_are_too_large_or_malformed_are_refused() {
        let mut deflate = Deflater::new().unwrap();
        let bomb = deflate.write(&[("x", &"y".repeat(LARGEST * 2))]);
        assert!(Inflater::new().read(&bomb).is_err());
        assert!(Inflater::new().read(b"nothing like zlib").is_err());
        for plain in [&[][..], &[0, 0, 0, 1], &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff], &[0xff; 8]] {
            assert_eq!(parse(plain), None);
        }
    }
}
