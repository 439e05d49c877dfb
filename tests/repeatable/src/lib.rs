//! How property tests draw their cases: the same ones in every run, so that a run says something about the change it
//! was made for and about nothing else.
//!
//! To look further, say how many cases and where they begin:
//! `PROPTEST_CASES=100000 PROPTEST_RNG_SEED=7 cargo test -p promql --test properties`

use proptest::test_runner::{Config, RngSeed};

const SEED: u64 = 20_270_000;

/// A property is tried with this many cases, unless the environment says otherwise.
pub fn cases(usual: u32) -> Config {
    // The default is what the environment says.
    let asked = Config::default();
    let seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(SEED),
        fixed => fixed,
    };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { usual };
    Config { cases, rng_seed: seed, failure_persistence: None, ..asked }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

    fn drawn() -> Vec<u64> {
        let mut runner = TestRunner::new(super::cases(5));
        let draw = |_| any::<u64>().new_tree(&mut runner).map(|tree| tree.current());
        (0..5).map(draw).collect::<Result<_, _>>().unwrap_or_default()
    }

    #[test]
    fn every_run_draws_the_same() {
        assert_eq!(drawn().len(), 5);
        assert_eq!(drawn(), drawn());
    }
}
