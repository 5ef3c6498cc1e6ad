//! `--request`: one request among all, and what each trace has of it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
};

use ringscope_format::{Batch, ChunkInfo, Columns, request_of};

use super::{
    Requests,
    finding::Taken,
    in_hex, place, place_columns,
    scopes::{Place, TrackScopes},
};
use crate::{
    Error, Result,
    budget::Budget,
    load::Traces,
    output::count,
    scan::{Visitor, scan},
};

/// The first digits of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

/// Fewer would be a slip of the hand.
const LEAST_DIGITS: usize = 4;
const DIGITS: usize = 32;
/// Ids in the message about too few digits.
const LISTED: usize = 3;

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !(LEAST_DIGITS..=DIGITS).contains(&text.len()) {
            return Err(format!(
                "not the id of a request, nor its first {LEAST_DIGITS} to {DIGITS} hexadecimal \
                 digits"
            ));
        }
        Ok(Self(text.to_lowercase()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The shortest digits that stand for an id among these, which are in order.
pub(crate) fn shortest_prefix(ids: &[u128], id: u128) -> String {
    let at = ids.partition_point(|&it| it < id);
    let common = |other: Option<&u128>| other.map_or(0, |it| (it ^ id).leading_zeros() / 4);
    let before = common(at.checked_sub(1).and_then(|at| ids.get(at)));
    let after = common(ids[at..].iter().find(|&&it| it != id));
    let digits = (before.max(after) as usize + 1).clamp(LEAST_DIGITS, DIGITS);
    in_hex(id)[..digits].to_owned()
}

/// What tells a record from others of its trace: track, start, value, name and kind.
type Key = (u32, u64, u64, u32, u8);

fn key(batch: &Batch, at: usize) -> Key {
    (batch.track[at], batch.start[at], batch.value[at], batch.name[at], batch.kind[at])
}

/// Bytes of a key in a list, and then in a set.
const BYTES_OF_KEY: u64 = size_of::<Told>() as u64 + 2 * size_of::<Key>() as u64;

/// What one trace has of the request that was asked for.
#[derive(Debug)]
pub(crate) struct OfRequest {
    id: u128,
    /// As scopes have it.
    number: u32,
    /// Of tracks that worked for it, all scopes: one within its own may be another's.
    tracks: HashMap<u32, TrackScopes>,
    /// Records that say that they are its, and are in none of its scopes.
    also: HashSet<Key>,
    /// Records in its scopes that say that they are another's.
    except: HashSet<Key>,
    /// From the first to the last tick in which a record of it may start; none if it has none.
    during: Option<(u64, u64)>,
}

impl OfRequest {
    /// Of the request.
    pub(crate) fn id(&self) -> u128 {
        self.id
    }

    /// Columns that [`Self::takes`] takes.
    pub(crate) fn columns() -> Columns {
        place_columns() | Columns::NAME
    }

    /// Whether the `at`-th record was done for it.
    pub(crate) fn takes(&self, batch: &Batch, at: usize) -> bool {
        if self.is_in_scope(batch.track[at], place(batch, at)) {
            self.except.is_empty() || !self.except.contains(&key(batch, at))
        } else {
            !self.also.is_empty() && self.also.contains(&key(batch, at))
        }
    }

    /// Whether something that began then and has not ended was done for it.
    pub(crate) fn takes_open(&self, track: u32, start: u64) -> bool {
        self.is_in_scope(track, Place { start, end: u64::MAX, depth: u8::MAX })
    }

    /// Whether anything of it can start in these ticks.
    pub(crate) fn can_start_in(&self, first: u64, last: u64) -> bool {
        self.during.is_some_and(|(from, to)| from <= last && first <= to)
    }

    fn is_in_scope(&self, track: u32, place: Place) -> bool {
        self.tracks.get(&track).is_some_and(|scopes| scopes.request(place) == Some(self.number))
    }

    fn extend_to(&mut self, start: u64, end: u64) {
        let during = self.during.get_or_insert((start, end));
        *during = (during.0.min(start), during.1.max(end));
    }
}

/// Finds the one request that begins with these digits, by trace.
pub(crate) fn choose(traces: &Traces, prefix: &Prefix, budget: Budget) -> Result<Vec<OfRequest>> {
    let requests = Requests::find(traces, budget)?;
    let number = only(requests.ids(), prefix)?;
    let id = requests.ids()[number as usize];
    let mut all: Vec<OfRequest> = requests
        .scopes
        .into_iter()
        .map(|mut tracks| {
            tracks.retain(|_, scopes| scopes.iter().any(|scope| scope.request == number));
            let (also, except) = (HashSet::new(), HashSet::new());
            OfRequest { id, number, tracks, also, except, during: None }
        })
        .collect();
    let taken = Taken::new(budget);
    let columns = OfRequest::columns() | Columns::SHAPE | Columns::SLOTS;
    let workers = scan(traces, columns, "looking for the request", || Telling {
        id,
        all: &all,
        taken: &taken,
        told: Vec::new(),
    })?;
    taken.check(|| format!("--request {}: events that name it", prefix.0))?;
    let told: Vec<Told> = workers.into_iter().flat_map(|worker| worker.told).collect();
    for Told { trace, key, is_in_scope } in told {
        if is_in_scope {
            all[trace].except.insert(key);
        } else {
            all[trace].extend_to(key.1, key.1);
            all[trace].also.insert(key);
        }
    }
    for of in &mut all {
        let own = of.tracks.values().flat_map(TrackScopes::iter).filter(|it| it.request == number);
        let times: Vec<(u64, u64)> = own.map(|it| (it.place.start, it.place.end)).collect();
        times.into_iter().for_each(|(start, end)| of.extend_to(start, end));
    }
    Ok(all)
}

/// The number of the one id that begins like this. Ids are in order.
fn only(ids: &[u128], prefix: &Prefix) -> Result<u32> {
    let digits = prefix.0.as_str();
    let first = ids.partition_point(|&id| *in_hex(id) < *digits);
    let matching = ids[first..].iter().take_while(|&&id| in_hex(id).starts_with(digits));
    match matching.clone().count() {
        1 => Ok(first as u32),
        0 => Err(Error::new(format!(
            "--request {digits}: no request has an id that begins so; analyze requests lists them"
        ))),
        several => {
            let listed: Vec<String> = matching.take(LISTED).map(|&id| in_hex(id)).collect();
            let more = if several > LISTED { ", ..." } else { "" };
            Err(Error::new(format!(
                "--request {digits}: {} requests begin so: {}{more}; give more digits",
                count(several as u64),
                listed.join(", "),
            )))
        }
    }
}

/// Looks for records that tell for which request they are.
struct Telling<'a> {
    id: u128,
    all: &'a [OfRequest],
    taken: &'a Taken,
    told: Vec<Told>,
}

/// A record whose own word and whose scope differ about the request.
struct Told {
    trace: usize,
    key: Key,
    is_in_scope: bool,
}

impl Visitor for Telling<'_> {
    fn wants(&self, _: usize, chunk: &ChunkInfo) -> bool {
        chunk.slots > 0
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let of = &self.all[trace];
        for (at, slots) in batch.slot_ranges().enumerate().filter(|(_, it)| !it.is_empty()) {
            let slots = batch.slots.get(slots).unwrap_or_default();
            let Some(own) = request_of(slots) else { continue };
            let is_in_scope = of.is_in_scope(batch.track[at], place(batch, at));
            if (own == self.id) != is_in_scope && self.taken.add(BYTES_OF_KEY) {
                self.told.push(Told { trace, key: key(batch, at), is_in_scope });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [u128; 4] = [0, 0xAB, 0x1234_5000 << 96, 0x1234_6000 << 96];

    fn chosen(digits: &str) -> std::result::Result<u32, String> {
        only(&IDS, &digits.parse()?).map_err(|error| error.to_string())
    }

    #[test]
    fn a_few_digits_that_only_one_id_begins_with_are_enough() {
        assert_eq!((chosen("12345"), chosen("12346")), (Ok(2), Ok(3)));
        assert_eq!(chosen("000000000000000000000000000000AB"), Ok(1));
        assert!(chosen("1234").unwrap_err().contains("2 requests begin so: 12345000"));
        assert!(chosen("ffff").unwrap_err().contains("no request has an id that begins so"));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for wrong in ["", "123", "wxyz", "0x12", "12-34", &"0".repeat(33)] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_shortest_digits_stand_for_their_id_and_no_other() {
        for &id in &IDS {
            let digits = shortest_prefix(&IDS, id);
            let found = only(&IDS, &digits.parse().unwrap()).unwrap();
            assert_eq!(IDS[found as usize], id, "{digits}");
        }
        assert_eq!(shortest_prefix(&[7 << 124], 7 << 124), "7000");
    }
}
