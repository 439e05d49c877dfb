use super::Error;

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Error::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds one bit.
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(Error::Damaged("a number that is too long"))
    }

    pub(super) fn number(&mut self) -> Result<usize, Error> {
        usize::try_from(self.varint()?).map_err(|_| Error::Damaged("a number that is too large"))
    }

    /// How many things of at least one byte each follow. A lie here cannot make anybody allocate.
    pub(super) fn count(&mut self) -> Result<usize, Error> {
        let n = self.number()?;
        if n > self.0.len() { Err(Error::CutOff) } else { Ok(n) }
    }

    pub(super) fn signed(&mut self) -> Result<i64, Error> {
        self.varint().map(unzigzag)
    }
}

pub(super) fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}
