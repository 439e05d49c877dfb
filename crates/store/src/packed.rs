//! Head and body of an item in one row or message.

use bytes::{BufMut, Bytes, BytesMut};

pub fn pack(head: &[u8], body: &[u8]) -> Bytes {
    let mut packed = BytesMut::with_capacity(4 + head.len() + body.len());
    packed.put_u32(u32::try_from(head.len()).unwrap_or(u32::MAX));
    packed.put_slice(head);
    packed.put_slice(body);
    packed.freeze()
}

pub fn unpack(mut packed: Bytes) -> (Bytes, Bytes) {
    if packed.len() < 4 {
        return (Bytes::new(), Bytes::new());
    }
    let size = packed.split_to(4);
    let size = size.iter().fold(0_usize, |size, byte| size << 8 | usize::from(*byte));
    let head = packed.split_to(size.min(packed.len()));
    (head, packed)
}
