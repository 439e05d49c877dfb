//! A test that draws its cases by chance would fail by chance.

use tidy::{read, shown, tracked};

#[test]
fn property_tests_draw_the_same_cases_in_every_run() {
    for file in tracked(".rs") {
        let (name, text) = (shown(&file), read(&file));
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line.ends_with("proptest! {") {
                let config = lines.next().unwrap_or_default();
                assert!(
                    config.starts_with("#![proptest_config(repeatable::cases("),
                    "{name}: proptest! begins with #![proptest_config(repeatable::cases(n))], or its cases change with every run"
                );
            }
            assert!(
                !line.contains(concat!("TestRunner", "::default()")),
                "{name}: hand the runner repeatable::cases(n), or its cases change with every run"
            );
        }
    }
}
