//! The store as bytes, so that one node scrapes and the others read.
//!
//! ```text
//! "BMS" version | strings | per target: name, times, per series: labels, first row, values
//! ```
//! Numbers are varints, texts stand once in a table, times are differences of differences (one byte for a steady
//! interval), values see [`column`]. Expired rows are left out. The reader believes nothing: every count is held
//! against what is left to read and against the limits of the store it fills.

mod column;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;

use promql::Labels;

use crate::Millis;
use crate::store::{Options, Store, Target, View};
use reader::Reader;
use writer::Writer;

const MAGIC: &[u8; 3] = b"BMS";
const VERSION: u8 = 1;
/// Times beyond this are refused: a query could not use them, and their differences might overflow.
const MAX_TIME: Millis = 1 << 53;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("this is not a snapshot of a metric store")]
    NotASnapshot,
    #[error("the snapshot has version {0}, this program reads version {VERSION}: update the older node")]
    Version(u8),
    #[error("the snapshot is cut off")]
    CutOff,
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    #[error("the snapshot holds more than {limit} {what}, which is more than this store keeps")]
    TooLarge { what: &'static str, limit: usize },
}

pub fn encode(view: &View) -> Vec<u8> {
    let targets = view.targets();
    let mut strings = Strings::default();
    let mut body = Writer::default();
    body.count(targets.len());
    let mut values: Vec<f64> = Vec::new();
    for (name, times, series) in targets {
        body.count(strings.id(name));
        write_times(&mut body, times.visible());
        let visible: Vec<_> = series.into_iter().filter(|s| !times.of(s).1.is_empty()).collect();
        body.count(visible.len());
        for series in visible {
            body.count(series.labels.iter().count());
            for text in series.labels.iter().flat_map(|(name, value)| [name, value]) {
                body.count(strings.id(text));
            }
            body.varint(series.first_row.saturating_sub(times.first_visible_row()));
            values.clear();
            values.extend(series.column.values(times.of(series).1));
            column::write(&mut body, &values);
        }
    }
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.bytes(&[VERSION]);
    out.count(strings.in_order.len());
    for text in &strings.in_order {
        out.count(text.len());
        out.bytes(text.as_bytes());
    }
    out.bytes(&body.into_bytes());
    out.into_bytes()
}

/// Makes a store of a snapshot. `options` are those of the new store.
pub fn decode(bytes: &[u8], options: Options) -> Result<Store, Error> {
    let mut reader = Reader::new(bytes);
    if reader.bytes(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(Error::NotASnapshot);
    }
    match reader.bytes(1)? {
        [VERSION] => {}
        other => return Err(Error::Version(other.first().copied().unwrap_or_default())),
    }
    let strings = read_strings(&mut reader)?;
    let text = |id: usize| strings.get(id).cloned().ok_or(Error::Damaged("a text that is not in the table"));
    let mut store = Store::new(options);
    // Living series may have grown a little beyond the limit before rows were dropped.
    let mut points_left = options.max_points + options.max_points / 4;
    for _ in 0..reader.count()? {
        let name: Arc<str> = text(reader.number()?)?;
        let times = read_times(&mut reader)?;
        let n_rows = times.len();
        if !store.restore_target(&name, Target::restored(times)) {
            return Err(Error::Damaged("a target that stands twice"));
        }
        for _ in 0..reader.count()? {
            let mut pairs = Vec::new();
            for _ in 0..reader.count()? {
                pairs.push((text(reader.number()?)?, text(reader.number()?)?));
            }
            let first_row = reader.number()?;
            if first_row >= n_rows {
                return Err(Error::Damaged("a series that begins behind its times"));
            }
            let values =
                column::read(&mut reader, n_rows - first_row, &mut points_left).map_err(|e| match e {
                    Error::TooLarge { what, .. } => Error::TooLarge { what, limit: options.max_points },
                    other => other,
                })?;
            store
                .restore_series(&name, Labels::from_pairs(pairs), first_row as u64, values)
                .map_err(|limit| Error::TooLarge { what: "series", limit })?;
        }
    }
    if !reader.is_empty() {
        return Err(Error::Damaged("bytes behind its end"));
    }
    Ok(store)
}

#[derive(Default)]
struct Strings {
    ids: HashMap<Arc<str>, usize>,
    in_order: Vec<Arc<str>>,
}

impl Strings {
    fn id(&mut self, text: &str) -> usize {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let new: Arc<str> = text.into();
        self.ids.insert(new.clone(), self.in_order.len());
        self.in_order.push(new);
        self.in_order.len() - 1
    }
}

fn read_strings(reader: &mut Reader<'_>) -> Result<Vec<Arc<str>>, Error> {
    let n = reader.count()?;
    let mut strings = Vec::new();
    for _ in 0..n {
        let len = reader.count()?;
        let text = std::str::from_utf8(reader.bytes(len)?)
            .map_err(|_| Error::Damaged("a text that is not UTF-8"))?;
        strings.push(Arc::from(text));
    }
    Ok(strings)
}

fn write_times(out: &mut Writer, times: &[Millis]) {
    out.count(times.len());
    let (mut last, mut last_step) = (0, 0);
    for &time in times {
        let step = time - last;
        out.signed(step - last_step);
        (last, last_step) = (time, step);
    }
}

fn read_times(reader: &mut Reader<'_>) -> Result<Vec<Millis>, Error> {
    let n = reader.count()?;
    let mut times: Vec<Millis> = Vec::with_capacity(n);
    let (mut last, mut last_step) = (0_i64, 0_i64);
    for _ in 0..n {
        let step = last_step.saturating_add(reader.signed()?);
        let time = last.saturating_add(step);
        if time.unsigned_abs() > MAX_TIME.unsigned_abs() || times.last().is_some_and(|&before| before >= time)
        {
            return Err(Error::Damaged("times that do not ascend"));
        }
        times.push(time);
        (last, last_step) = (time, step);
    }
    Ok(times)
}
