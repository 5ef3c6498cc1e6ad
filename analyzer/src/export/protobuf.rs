//! The little of the protocol buffers' wire format that writing takes.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// A `uint32`, `uint64`, `bool` or enum.
    pub(super) fn uint(mut self, field: u32, value: u64) -> Self {
        self.tag(field, VARINT);
        self.varint(value);
        self
    }

    /// An `int32` or `int64`, which is not zigzag-coded.
    pub(super) fn int(self, field: u32, value: i64) -> Self {
        self.uint(field, value as u64)
    }

    /// A `fixed64`.
    pub(super) fn fixed64(mut self, field: u32, value: u64) -> Self {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A `double`.
    pub(super) fn double(self, field: u32, value: f64) -> Self {
        self.fixed64(field, value.to_bits())
    }

    /// A `string`.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.delimited(field, text.as_bytes())
    }

    /// A message within this one.
    pub(super) fn message(self, field: u32, inner: &Message) -> Self {
        self.delimited(field, &inner.0)
    }

    /// A packed `repeated` of `uint64` or `int64`.
    pub(super) fn packed(self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        let mut inner = Message::new();
        values.into_iter().for_each(|value| inner.varint(value));
        self.message(field, &inner)
    }

    fn delimited(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_every_byte_where_the_encoding_says() {
        let inner = Message::new().uint(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let message = Message::new().text(2, "hi").message(3, &inner).int(16, -1);
        let expected = [0x12, 2, b'h', b'i', 0x1A, 3, 0x08, 0x96, 0x01, 0x80, 0x01];
        assert_eq!(message.bytes()[..11], expected);
        assert_eq!(message.bytes()[11..], [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(Message::new().fixed64(47, 1).bytes(), [0xF9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::new().packed(4, [3, 270]).bytes(), [0x22, 3, 3, 0x8E, 0x02]);
    }
}
