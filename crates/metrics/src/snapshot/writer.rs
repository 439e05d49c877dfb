/// Seven bits a byte, the lowest first; signed numbers alternate around zero.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub(super) fn count(&mut self, n: usize) {
        self.varint(n as u64);
    }

    pub(super) fn signed(&mut self, n: i64) {
        self.varint(zigzag(n));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

pub(super) fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}
