//! English plurals, as far as kinds need them. The plural is in the names of CRDs for good, so rules may be added but
//! not changed.

const UNCOUNTABLE: [&str; 9] =
    ["equipment", "information", "money", "species", "series", "fish", "sheep", "news", "metadata"];

const IRREGULAR: [(&str, &str); 12] = [
    ("person", "people"),
    ("child", "children"),
    ("woman", "women"),
    ("human", "humans"),
    ("man", "men"),
    ("mouse", "mice"),
    ("datum", "data"),
    ("vertex", "vertices"),
    ("matrix", "matrices"),
    ("index", "indices"),
    ("analysis", "analyses"),
    ("quiz", "quizzes"),
];

/// Of a word in lower case.
pub(crate) fn plural(word: &str) -> String {
    if UNCOUNTABLE.iter().any(|known| word.ends_with(known)) {
        return word.to_owned();
    }
    if let Some((one, many)) = IRREGULAR.iter().find(|(one, _)| word.ends_with(one)) {
        return format!("{}{many}", &word[..word.len() - one.len()]);
    }
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if ends_in(&["s", "x", "z", "ch", "sh"]) {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals() {
        for (one, many) in [
            ("webapp", "webapps"),
            ("webappset", "webappsets"),
            ("policy", "policies"),
            ("gateway", "gateways"),
            ("ingress", "ingresses"),
            ("box", "boxes"),
            ("batch", "batches"),
            ("mesh", "meshes"),
            ("database", "databases"),
            ("vertex", "vertices"),
            ("monovertex", "monovertices"),
            ("appseries", "appseries"),
            ("y", "ies"),
        ] {
            assert_eq!(plural(one), many);
        }
    }
}
