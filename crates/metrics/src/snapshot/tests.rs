use promql::{Budget, Limits, STALE, SeriesSource, TimeRange};
use proptest::prelude::*;

use super::*;
use crate::store::Batch;

type Contents = Vec<(Labels, Vec<(Millis, u64)>)>;

/// Every series with the bits of its samples.
fn contents(store: &Store) -> Contents {
    let mut all = Vec::new();
    let everything = TimeRange { min: Millis::MIN, max: Millis::MAX };
    store
        .view()
        .select(&[], everything, &Budget::new(Limits::default()), &mut |series| {
            let samples = series.timestamps.iter().zip(series.values).map(|(t, v)| (*t, v.to_bits()));
            all.push((series.labels.clone(), samples.collect()));
            Ok(())
        })
        .unwrap();
    all.sort();
    all
}

/// Each row is a scrape of target `i % 2`; a series without value is missing from it.
fn store_of(rows: &[Vec<Option<f64>>]) -> Store {
    let mut store = Store::default();
    for (i, row) in rows.iter().enumerate() {
        let target = format!("t{}", i % 2);
        let mut batch = Batch::new();
        for (at, value) in row.iter().enumerate().filter_map(|(at, v)| v.map(|v| (at, v))) {
            let labels = [("__name__", "m".to_string()), ("i", at.to_string()), ("t", target.clone())];
            batch.push_fresh(Labels::from_pairs(labels), value, None);
        }
        store.commit(&target, 1_700_000_000_000 + 5_000 * i as Millis, batch).unwrap();
    }
    store
}

#[test]
fn a_store_is_the_same_after_a_round_trip_and_lives_on() {
    let store = store_of(&[
        vec![Some(1.0), Some(f64::NAN), None],
        vec![Some(-0.0), Some(f64::INFINITY), Some(9_007_199_254_740_993.0)],
        vec![Some(1.0), None, Some(0.1)],
        vec![Some(1e300), Some(STALE), Some(-5.0)],
    ]);
    let mut copy = decode(&encode(&store.view()), Options::default()).unwrap();
    assert_eq!(contents(&copy), contents(&store));
    assert_eq!(copy.view().figures(), store.view().figures());
    let labels = Labels::from_pairs([("__name__", "m"), ("i", "0"), ("t", "t0")]);
    let mut batch = Batch::new();
    batch.push_fresh(labels, 2.0, None);
    copy.commit("t0", 1_700_000_100_000, batch).unwrap();
    assert_eq!(copy.view().figures().series_count, store.view().figures().series_count);
}

#[test]
fn steady_data_is_small() {
    // A gauge that rests, a counter and a fraction, 360 samples each.
    let rows: Vec<Vec<Option<f64>>> = (0..720)
        .map(|i| vec![Some(3.0), Some(1e6 + 37.0 * f64::from(i)), Some(f64::from(i % 7) / 10.0)])
        .collect();
    let sizes: Vec<usize> = (0..=3)
        .map(|n| encode(&store_of(&rows.iter().map(|r| r[..n].to_vec()).collect::<Vec<_>>()).view()).len())
        .collect();
    let per_sample: Vec<f64> = sizes.windows(2).map(|w| (w[1] - w[0]) as f64 / 720.0).collect();
    assert!(
        per_sample[0] < 1.5 && per_sample[1] < 2.5 && per_sample[2] < 9.5,
        "{per_sample:?} bytes a sample"
    );
}

#[test]
fn foreign_bytes_are_told_apart() {
    let good = encode(&store_of(&[vec![Some(1.0)]]).view());
    let decode = |bytes: &[u8]| decode(bytes, Options::default()).unwrap_err();
    assert_eq!(decode(b""), Error::NotASnapshot);
    assert_eq!(decode(b"{\"json\":1}"), Error::NotASnapshot);
    assert_eq!(decode(b"BMS\x02"), Error::Version(2));
    assert_eq!(decode(&[&good[..], b"x"].concat()), Error::Damaged("bytes behind its end"));
    // one empty text, one target by that name, with the earliest time there is: it has no opposite
    let earliest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let far = [&b"BMS\x01\x01\x00\x01\x00\x01"[..], &earliest].concat();
    assert_eq!(decode(&far), Error::Damaged("times that do not ascend"));
    for n in 4..good.len() {
        decode(&good[..n]);
    }
    // A text table that claims 2^60 entries.
    assert_eq!(decode(b"BMS\x01\x80\x80\x80\x80\x80\x80\x80\x80\x10"), Error::CutOff);
}

#[test]
fn a_snapshot_cannot_outgrow_the_store() {
    let bytes = encode(&store_of(&vec![vec![Some(1.0); 10]; 20]).view());
    let decode = |options| decode(&bytes, options).unwrap_err();
    assert_eq!(
        decode(Options { max_series: 5, ..Options::default() }),
        Error::TooLarge { what: "series", limit: 5 }
    );
    assert_eq!(
        decode(Options { max_points: 100, ..Options::default() }),
        Error::TooLarge { what: "points", limit: 100 }
    );
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn round_trips(rows in prop::collection::vec(prop::collection::vec(prop::option::of(prop_oneof![
        any::<f64>(), (-1000..1000_i32).prop_map(f64::from), any::<u64>().prop_map(f64::from_bits), Just(0.5)
    ]), 4), 0..40)) {
        let store = store_of(&rows);
        let copy = decode(&encode(&store.view()), Options::default()).unwrap();
        prop_assert_eq!(contents(&copy), contents(&store));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&[b"BMS\x01", &bytes[..]].concat(), Options::default());
    }

    /// Damage at one place keeps the rest plausible, so that it gets deep into the reader.
    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encode(&store_of(&vec![vec![Some(1.0), Some(0.1), None, Some(7.0)]; 9]).view());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(store) = decode(&bytes, Options::default()) {
            contents(&store);
            encode(&store.view());
        }
    }
}
