//! Finds the paths in a source file that lead out of its module: `crate::…` and `super::…`, in `use` trees, in line,
//! and in the links of doc comments. Strings and other comments are skipped.

/// A path from the root of the crate, as it was resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The line, counting from 1.
    pub line: usize,
    /// What follows `crate::`, segment by segment; a glob ends in `*`. Empty for the crate itself under another name.
    pub path: Vec<String>,
}

/// What a source file says, without its strings and comments.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    Name(String),
    /// `::`
    Colons,
    Sign(char),
}

/// All imports of a file that is the given module (`["laplace", "fit"]` for `src/laplace/fit.rs`).
pub fn imports(module: &[&str], source: &str) -> Vec<Import> {
    let (words, mut found) = scan(source);
    let mut module: Vec<String> = module.iter().map(|name| name.to_string()).collect();
    // The inline modules that are open, as the number of braces around each.
    let (mut braces, mut open, mut at) = (0, Vec::new(), 0);
    while at < words.len() {
        match &words[at].1 {
            Word::Sign('{') => braces += 1,
            Word::Sign('}') => {
                braces -= 1;
                if open.last() == Some(&braces) {
                    open.pop();
                    module.pop();
                }
            }
            Word::Name(name) if name == "mod" => {
                if let (Some((_, Word::Name(inner))), Some((_, Word::Sign('{')))) =
                    (words.get(at + 1), words.get(at + 2))
                {
                    module.push(inner.clone());
                    open.push(braces);
                    (braces, at) = (braces + 1, at + 2);
                }
            }
            Word::Name(name) if name == "crate" && is_name(&words, at + 1, "as") => {
                found.push(Import { line: words[at].0, path: Vec::new() });
            }
            Word::Name(name) if ["crate", "super"].contains(&name.as_str()) && !is_within_path(&words, at) => {
                let mut prefix = if name == "crate" { Vec::new() } else { module[..module.len().max(1) - 1].to_vec() };
                let mut next = at + 1;
                while colons(&words, next) && is_name(&words, next + 1, "super") {
                    prefix.pop();
                    next += 2;
                }
                if colons(&words, next) {
                    next = tree(&words, next + 1, &prefix, &mut found);
                }
                at = next.max(at + 1) - 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.sort_by_key(|import| import.line);
    found
}

fn is_name(words: &[(usize, Word)], at: usize, expected: &str) -> bool {
    matches!(words.get(at), Some((_, Word::Name(name))) if name == expected)
}

fn colons(words: &[(usize, Word)], at: usize) -> bool {
    matches!(words.get(at), Some((_, Word::Colons)))
}

/// Whether a word is not the start of its path; `self::` before it changes nothing.
fn is_within_path(words: &[(usize, Word)], at: usize) -> bool {
    at > 0 && colons(words, at - 1) && !(at > 1 && is_name(words, at - 2, "self"))
}

/// Adds the paths of a `use` tree, or of a path in line, that starts at `at`; returns where it ends.
fn tree(words: &[(usize, Word)], mut at: usize, prefix: &[String], found: &mut Vec<Import>) -> usize {
    match words.get(at) {
        Some((line, Word::Name(name))) => {
            let mut path = prefix.to_vec();
            if name != "self" {
                path.push(name.clone());
            }
            if colons(words, at + 1) && matches!(words.get(at + 2), Some((_, Word::Name(_) | Word::Sign('{' | '*')))) {
                return tree(words, at + 2, &path, found);
            }
            found.push(Import { line: *line, path });
            at + 1
        }
        Some((line, Word::Sign('*'))) => {
            found.push(Import { line: *line, path: [prefix, &["*".to_string()]].concat() });
            at + 1
        }
        Some((_, Word::Sign('{'))) => {
            at += 1;
            while let Some((_, word)) = words.get(at) {
                match word {
                    Word::Sign('}') => return at + 1,
                    Word::Sign(',') => at += 1,
                    // `name as other`: the other name leads nowhere.
                    Word::Name(name) if name == "as" => at += 2,
                    _ => at = tree(words, at, prefix, found).max(at + 1),
                }
            }
            at
        }
        _ => at,
    }
}

/// The words of a source file, each with its line, and the imports in its doc comments.
fn scan(source: &str) -> (Vec<(usize, Word)>, Vec<Import>) {
    let (mut words, mut found) = (Vec::new(), Vec::new());
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            if rest.starts_with("///") || rest.starts_with("//!") {
                found.extend(links(&rest[..length]).map(|path| Import { line, path }));
            }
            length
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = string(rest) {
            length
        } else if first == '\'' {
            quote(rest)
        } else if is_part_of_name(first) {
            let length = name_length(rest);
            words.push((line, Word::Name(rest[..length].to_string())));
            length
        } else if rest.starts_with("::") {
            words.push((line, Word::Colons));
            2
        } else {
            if !first.is_whitespace() {
                words.push((line, Word::Sign(first)));
            }
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    (words, found)
}

fn is_part_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn name_length(text: &str) -> usize {
    text.find(|letter| !is_part_of_name(letter)).unwrap_or(text.len())
}

/// The paths from the root of the crate in a doc comment.
fn links(comment: &str) -> impl Iterator<Item = Vec<String>> {
    comment.match_indices("crate::").filter(|(at, _)| !comment[..*at].ends_with(is_part_of_name)).map(|(at, start)| {
        let mut rest = &comment[at + start.len()..];
        let mut path = Vec::new();
        loop {
            let length = name_length(rest);
            path.push(rest[..length].to_string());
            match rest[length..].strip_prefix("::") {
                Some(more) => rest = more,
                None => return path,
            }
        }
    })
}

/// The length of a comment `/* … */`, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string literal that the text starts with: plain, raw, of bytes.
fn string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let after = text.strip_prefix(prefix).unwrap_or_default();
        after.starts_with('"')
            || (prefix.ends_with('r') && after.trim_start_matches('#').starts_with('"') && after.starts_with('#'))
    })?;
    let after = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = after.len() - after.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let body = prefix.len() + hashes + 1;
        return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
    }
    let mut escaped = false;
    for (at, letter) in after.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(prefix.len() + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}

/// The length of a character literal, or of the quote that starts a lifetime.
fn quote(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            text[after..].find('\'').map_or(text.len(), |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}
