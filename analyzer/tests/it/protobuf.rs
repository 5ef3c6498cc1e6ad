//! Reads the wire format of protocol buffers, for tests.

/// A field's content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<(u64, Field)>);

impl Message {
    /// Panics on what is no message.
    pub(crate) fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Field::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Self(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(move |field| field.0 == number).map(|field| &field.1)
    }

    pub(crate) fn messages(&self, number: u64) -> Vec<Message> {
        let bytes = self.all(number).map(|field| match field {
            Field::Bytes(bytes) => Message::parse(bytes),
            Field::Number(_) => panic!("field {number} is a number"),
        });
        bytes.collect()
    }

    pub(crate) fn message(&self, number: u64) -> Option<Message> {
        self.messages(number).pop()
    }

    pub(crate) fn number(&self, number: u64) -> Option<u64> {
        self.all(number).last().map(|field| match field {
            Field::Number(value) => *value,
            Field::Bytes(_) => panic!("field {number} is no number"),
        })
    }

    pub(crate) fn texts(&self, number: u64) -> Vec<String> {
        let texts = self.all(number).map(|field| match field {
            Field::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Field::Number(_) => panic!("field {number} is a number"),
        });
        texts.collect()
    }

    pub(crate) fn text(&self, number: u64) -> Option<String> {
        self.texts(number).pop()
    }

    pub(crate) fn packed(&self, number: u64) -> Vec<u64> {
        let mut values = Vec::new();
        for field in self.all(number) {
            let Field::Bytes(bytes) = field else { panic!("field {number} is not packed") };
            let mut bytes = bytes.as_slice();
            while !bytes.is_empty() {
                values.push(varint(&mut bytes));
            }
        }
        values
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
