//! Along which edges a message goes, and into which partition there.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    And,
    Or,
    Not,
}

/// Without tags, every message goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition(pub Option<(Operator, Vec<String>)>);

impl Condition {
    pub fn allows(&self, message: &Message) -> bool {
        let Some((operator, wanted)) = &self.0 else { return true };
        let has = |tag: &String| message.tags.contains(tag);
        match operator {
            Operator::And => wanted.iter().all(has),
            Operator::Or => wanted.iter().any(has),
            Operator::Not => !wanted.iter().any(has),
        }
    }
}

/// The same for a message that is delivered again, or the next buffer would keep it twice.
pub fn partition(message: &Message, n_partitions: usize, by_keys: bool) -> usize {
    if n_partitions <= 1 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    if by_keys {
        message.keys.join(":").hash(&mut hasher);
    } else {
        message.id.offset.hash(&mut hasher);
        message.id.index.hash(&mut hasher);
    }
    (hasher.finish() % n_partitions as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_decide() {
        let tagged = |tags: &[&str]| Message {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Message::default()
        };
        let condition = |operator| Condition(Some((operator, vec!["a".to_owned(), "b".to_owned()])));
        for (tags, and, or, not) in [
            (&["a", "b"][..], true, true, false),
            (&["a", "c"], false, true, false),
            (&["c"], false, false, true),
            (&[], false, false, true),
        ] {
            let allowed = [Operator::And, Operator::Or, Operator::Not]
                .map(|operator| condition(operator).allows(&tagged(tags)));
            assert_eq!(allowed, [and, or, not], "{tags:?}");
            assert!(Condition::default().allows(&tagged(tags)));
        }
    }

    #[test]
    fn partitions_are_used_evenly_and_stay() {
        let mut counts = [0; 4];
        for number in 0..4000 {
            let mut message = Message { keys: vec![(number % 3).to_string()], ..Message::default() };
            message.id.offset = number.to_string();
            let chosen = partition(&message, 4, false);
            assert_eq!(chosen, partition(&message.clone(), 4, false));
            counts[chosen] += 1;
            let same_keys = Message { keys: message.keys.clone(), ..Message::default() };
            assert_eq!(partition(&message, 4, true), partition(&same_keys, 4, true));
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
