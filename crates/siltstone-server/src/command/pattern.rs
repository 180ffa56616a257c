//! Redis's patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that is matched as it is.

/// Returns whether a whole text matches a pattern. Takes at most the product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to continue when a byte does not match: behind the last star, which then takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, from));
            at += 1;
            continue;
        }
        match one(&pattern[at..], text[from]) {
            Some(taken) => {
                at += taken;
                from += 1;
            }
            None => match &mut star {
                Some((behind, begin)) => {
                    *begin += 1;
                    (at, from) = (*behind, *begin);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte. Returns the length of what it matched in the pattern.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// Matches one byte with a class. A class that is not closed ends with the pattern, as in Redis.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let is_negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(is_negated);
    let mut is_in = false;
    while let Some(&first) = pattern.get(at) {
        match (first, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', ..) => {
                at += 1;
                break;
            }
            (b'\\', Some(&escaped), _) => {
                is_in |= escaped == byte;
                at += 2;
            }
            (low, Some(b'-'), Some(&high)) => {
                is_in |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            (plain, ..) => {
                is_in |= plain == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: [(&str, &str, bool); 22] = [
            ("*", "", true),
            ("*", "abc", true),
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*b", "abc", false),
            ("*b*", "abc", true),
            ("a?c", "abc", true),
            ("a?", "abc", false),
            ("", "", true),
            ("", "a", false),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("[\\]]", "]", true),
            ("[abc", "b", true),
            ("a**b", "a123b", true),
            ("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
