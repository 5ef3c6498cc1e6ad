//! A part of a file that is kept while a walk goes on from there: what the walk comes to next is
//! often in it already, and is not read again.

use super::source::Source;
use std::io;
use std::ops::Range;

/// The bytes from `start` on that were read last.
pub(crate) struct Window<'a, S> {
    source: &'a S,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, S: Source> Window<'a, S> {
    pub(crate) fn new(source: &'a S) -> Self {
        Window { source, start: 0, bytes: Vec::new() }
    }

    /// All that is kept from this offset on.
    pub(crate) fn kept(&self, at: u64) -> &[u8] {
        let before = at.checked_sub(self.start).and_then(|before| usize::try_from(before).ok());
        before.and_then(|before| self.bytes.get(before..)).unwrap_or(&[])
    }

    /// All that is kept from where `place` begins. Unless that is `least` bytes already, the
    /// rest of `place` is read, and what lies before it forgotten.
    pub(crate) fn hold(&mut self, place: Range<u64>, least: usize) -> io::Result<&[u8]> {
        let known = self.kept(place.start).len();
        if known < least {
            self.bytes.drain(..self.bytes.len() - known);
            self.start = place.start;
            self.bytes.resize((place.end - place.start) as usize, 0);
            let missing = &mut self.bytes[known..];
            if let Err(cause) = self.source.read_exact_at(missing, place.start + known as u64) {
                self.bytes.clear();
                return Err(cause);
            }
        }
        Ok(self.kept(place.start))
    }

    /// Whether other bytes are there now than those that are kept, which are then forgotten.
    pub(crate) fn is_outdated(&mut self, at: u64, length: usize) -> bool {
        let Some(kept) = self.kept(at).get(..length) else { return false };
        let mut now = vec![0; length];
        let outdated = self.source.read_exact_at(&mut now, at).is_ok() && now != kept;
        if outdated {
            self.bytes.clear();
        }
        outdated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Bytes that count up, and which of them were asked for.
    struct Asked(Mutex<Vec<Range<u64>>>);

    impl Source for Asked {
        fn len(&self) -> io::Result<u64> {
            Ok(256)
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            let place = offset..offset + buf.len() as u64;
            if place.end > 256 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.iter_mut().zip(place.clone()).for_each(|(byte, at)| *byte = at as u8);
            self.0.lock().unwrap().push(place);
            Ok(())
        }
    }

    #[test]
    fn only_what_is_not_kept_is_read() {
        let source = Asked(Mutex::default());
        let mut window = Window::new(&source);
        assert!(window.kept(0).is_empty());
        assert_eq!(window.hold(10..20, 4).unwrap(), Vec::from_iter(10..20));
        assert_eq!(window.hold(14..40, 6).unwrap(), Vec::from_iter(14..20));
        assert_eq!(window.hold(14..40, 7).unwrap(), Vec::from_iter(14..40));
        assert_eq!(window.hold(100..110, 1).unwrap(), Vec::from_iter(100..110));
        assert_eq!(window.hold(90..105, 1).unwrap(), Vec::from_iter(90..105));
        assert_eq!(*source.0.lock().unwrap(), [10..20, 20..40, 100..110, 90..105]);
        assert_eq!(
            (window.kept(103), window.kept(105), window.kept(89)),
            (&[103, 104][..], &[][..], &[][..])
        );
    }

    #[test]
    fn nothing_is_kept_of_what_cannot_be_read() {
        let source = Asked(Mutex::default());
        let mut window = Window::new(&source);
        window.hold(200..250, 1).unwrap();
        assert!(window.hold(240..300, 20).is_err());
        assert_eq!((window.kept(200), window.kept(240)), (&[][..], &[][..]));
    }

    #[test]
    fn kept_bytes_that_have_changed_since_are_forgotten() {
        let source = Asked(Mutex::default());
        let mut window = Window::new(&source);
        window.hold(10..20, 1).unwrap();
        assert!(!window.is_outdated(12, 4) && !window.is_outdated(18, 4));
        window.bytes[3] = 0;
        assert!(!window.is_outdated(14, 4) && window.is_outdated(12, 4));
        assert!(window.kept(10).is_empty());
    }
}
