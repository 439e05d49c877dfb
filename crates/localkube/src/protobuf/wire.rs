//! The wire format: a sequence of numbered fields.

pub struct Field<'a> {
    pub number: u32,
    pub payload: Payload<'a>,
}

pub enum Payload<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<Field<'a>> {
        let tag = self.varint()?;
        let payload = match tag & 7 {
            0 => Payload::Number(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            _ => return None,
        };
        Some(Field { number: u32::try_from(tag >> 3).ok()?, payload })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Field<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            // Whatever is left makes no sense any more.
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "protobuf: the message is cut off or malformed".to_owned()))
    }
}
