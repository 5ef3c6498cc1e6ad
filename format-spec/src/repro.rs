//! Scripts that repeat a failure: from the fields that VOCABULARY.md has for
//! errors (`library`, `module`, `function`, `arguments`), text in and text out.
//!
//! What comes from a trace is data, never code: texts become literals of the
//! script's language, and lines of comments can not be left.

use std::fmt::Write;

use serde_json::Value;

/// In which language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Imports the module and calls the function.
    Python,
    /// Runs the library as a program: module and function are its first words.
    Shell,
}

/// What is known of a failure.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// For the script's comment: which error, when, where.
    pub about: Vec<String>,
    /// The library as it is imported, or the program.
    pub library: Option<String>,
    /// Where the function is within the library.
    pub module: Option<String>,
    /// What was called.
    pub function: Option<String>,
    /// Its arguments, as JSON: an array of them, an object of named ones, or
    /// `{"args": [...], "kwargs": {...}}` for both.
    pub arguments: Option<String>,
}

impl Failure {
    /// The script.
    ///
    /// # Errors
    ///
    /// What is missing or wrong, and what would help.
    pub fn script(&self, language: Language) -> Result<String, String> {
        let arguments = self.arguments()?;
        match language {
            Language::Python => self.python(&arguments),
            Language::Shell => self.shell(&arguments),
        }
    }

    fn arguments(&self) -> Result<Arguments, String> {
        let Some(text) = self.arguments.as_deref().filter(|text| !text.trim().is_empty()) else {
            return Ok(Arguments::default());
        };
        let value: Value = serde_json::from_str(text).map_err(|error| {
            format!(
                "its field `arguments` is not JSON: {error}; it may have been cut, as texts of \
                     more than 64 KiB are"
            )
        })?;
        Ok(match value {
            Value::Array(list) => Arguments { list, named: Vec::new() },
            Value::Object(mut object) => {
                let both = object.keys().all(|key| key == "args" || key == "kwargs");
                match (both, object.remove("args"), object.remove("kwargs")) {
                    (true, args, kwargs) if args.is_some() || kwargs.is_some() => Arguments {
                        list: args.map(into_list).unwrap_or_default(),
                        named: kwargs.map(into_named).unwrap_or_default(),
                    },
                    (_, args, kwargs) => {
                        let back = [("args", args), ("kwargs", kwargs)];
                        let back = back.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?)));
                        let mut named: Vec<_> = object.into_iter().chain(back).collect();
                        named.sort_by(|a, b| a.0.cmp(&b.0));
                        Arguments { list: Vec::new(), named }
                    }
                }
            }
            single => Arguments { list: vec![single], named: Vec::new() },
        })
    }

    fn python(&self, arguments: &Arguments) -> Result<String, String> {
        let function = self.function.as_deref().filter(|name| !name.is_empty());
        let function = function.ok_or("it has no field `function`, so there is nothing to call")?;
        let mut script = String::from("#!/usr/bin/env python3\n");
        self.comment(&mut script);
        let list = Value::Array(arguments.list.clone()).to_string();
        let named: serde_json::Map<String, Value> = arguments.named.iter().cloned().collect();
        let named = Value::Object(named).to_string();
        // A JSON string is a Python string: it knows no escape that Python does not.
        let literal = |text: &str| Value::from(text).to_string();
        let _ = write!(
            script,
            "import functools\nimport importlib\nimport json\n\n\
             module = importlib.import_module({})\n\
             function = functools.reduce(getattr, {}.split(\".\"), module)\n\
             arguments = json.loads({})\n\
             named = json.loads({})\n\
             print(repr(function(*arguments, **named)))\n",
            literal(&self.python_module()),
            literal(function),
            literal(&list),
            literal(&named),
        );
        Ok(script)
    }

    /// `library.module`, either alone, or Python's own functions.
    fn python_module(&self) -> String {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        match (given(&self.library), given(&self.module)) {
            (Some(library), Some(module)) => {
                let within = module.strip_prefix(&library);
                let is_whole = within.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                if is_whole { module } else { format!("{library}.{module}") }
            }
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => "builtins".to_owned(),
        }
    }

    fn shell(&self, arguments: &Arguments) -> Result<String, String> {
        let words = [&self.library, &self.module, &self.function];
        let mut words: Vec<String> =
            words.into_iter().flatten().filter(|word| !word.is_empty()).cloned().collect();
        if words.is_empty() {
            return Err("it has none of the fields `library`, `module` and `function`, so there \
                        is nothing to run"
                .to_owned());
        }
        words.extend(arguments.list.iter().map(plain));
        for (key, value) in &arguments.named {
            match value {
                Value::Bool(true) => words.push(format!("--{key}")),
                Value::Bool(false) | Value::Null => {}
                value => words.push(format!("--{key}={}", plain(value))),
            }
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(
                "a word of its command has a zero byte, which no command line can hold".to_owned()
            );
        }
        let mut script = String::from("#!/bin/sh\n");
        self.comment(&mut script);
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(script, "exec {}", quoted.join(" "));
        Ok(script)
    }

    fn comment(&self, script: &mut String) {
        for line in self.about.iter().flat_map(|text| text.lines()) {
            let harmless: String =
                line.chars().map(|c| if ends_a_line(c) { ' ' } else { c }).collect();
            let _ = writeln!(script, "# {harmless}");
        }
        script.push('\n');
    }
}

#[derive(Debug, Default)]
struct Arguments {
    list: Vec<Value>,
    named: Vec<(String, Value)>,
}

fn into_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        single => vec![single],
    }
}

fn into_named(value: Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(named) => {
            // In one order, whichever the parser keeps.
            let mut named: Vec<_> = named.into_iter().collect();
            named.sort_by(|a, b| a.0.cmp(&b.0));
            named
        }
        _ => Vec::new(),
    }
}

/// Whatever some interpreter might take for the end of a comment.
fn ends_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text as it is, everything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One word of a shell, whatever is in it.
fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            about: vec!["call.exception\r\nimport os; os.abort()".to_owned()],
            library: Some("json".to_owned()),
            module: Some("decoder".to_owned()),
            function: Some("JSONDecoder.decode".to_owned()),
            arguments: Some(r#"["it's \"x\"\n", 1, {"a": null}]"#.to_owned()),
        }
    }

    #[test]
    fn a_python_script_is_data_in_a_fixed_frame() {
        let expected = concat!(
            "#!/usr/bin/env python3\n",
            "# call.exception\n",
            "# import os; os.abort()\n",
            "\n",
            "import functools\n",
            "import importlib\n",
            "import json\n",
            "\n",
            "module = importlib.import_module(\"json.decoder\")\n",
            "function = functools.reduce(getattr, \"JSONDecoder.decode\".split(\".\"), module)\n",
            "arguments = json.loads(\"[\\\"it's \\\\\\\"x\\\\\\\"\\\\n\\\",1,{\\\"a\\\":null}]\")\n",
            "named = json.loads(\"{}\")\n",
            "print(repr(function(*arguments, **named)))\n",
        );
        assert_eq!(failure().script(Language::Python).unwrap(), expected);
    }

    #[test]
    fn a_shell_script_quotes_every_word() {
        let script = failure().script(Language::Shell).unwrap();
        let last = r#"exec json decoder JSONDecoder.decode 'it'\''s "x"
' 1 '{"a":null}'"#;
        assert!(script.ends_with(&format!("\n{last}\n")), "{script}");
        let named = Failure {
            arguments: Some(r#"{"path": "a b", "force": true, "dry": false, "n": 3}"#.to_owned()),
            ..Failure { library: Some("tool".to_owned()), ..Failure::default() }
        };
        let script = named.script(Language::Shell).unwrap();
        assert!(script.ends_with("exec tool --force --n=3 '--path=a b'\n"), "{script}");
    }

    #[test]
    fn modules_are_joined_with_their_library_once() {
        let module = |library: &str, module: &str| {
            let given = |text: &str| Some(text.to_owned());
            Failure { library: given(library), module: given(module), ..Failure::default() }
                .python_module()
        };
        assert_eq!(module("numpy", "linalg"), "numpy.linalg");
        assert_eq!(module("numpy", "numpy.linalg"), "numpy.linalg");
        assert_eq!(module("numpy", "numpyro"), "numpy.numpyro");
        assert_eq!(module("numpy", ""), "numpy");
        assert_eq!(module("", ""), "builtins");
    }

    #[test]
    fn named_and_unnamed_arguments_may_come_together() {
        let with = |arguments: &str| {
            let failure = Failure {
                function: Some("f".to_owned()),
                arguments: Some(arguments.to_owned()),
                ..Failure::default()
            };
            let script = failure.script(Language::Python).unwrap();
            script.lines().filter(|line| line.contains("json.loads")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            with(r#"{"args": [1], "kwargs": {"k": 2}}"#),
            r#"arguments = json.loads("[1]") named = json.loads("{\"k\":2}")"#
        );
        assert_eq!(
            with(r#"{"args": 1, "other": 2}"#),
            r#"arguments = json.loads("[]") named = json.loads("{\"args\":1,\"other\":2}")"#
        );
        assert_eq!(with("7"), r#"arguments = json.loads("[7]") named = json.loads("{}")"#);
        assert_eq!(with(""), r#"arguments = json.loads("[]") named = json.loads("{}")"#);
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let nothing = Failure::default();
        assert!(nothing.script(Language::Python).unwrap_err().contains("`function`"));
        assert!(nothing.script(Language::Shell).unwrap_err().contains("nothing to run"));
        let cut = Failure { arguments: Some("[1, 2".to_owned()), ..failure() };
        assert!(cut.script(Language::Python).unwrap_err().contains("is not JSON: EOF"));
        let zero = Failure { arguments: Some(r#"["a\u0000b"]"#.to_owned()), ..failure() };
        assert!(zero.script(Language::Shell).unwrap_err().contains("a zero byte"));
        assert!(zero.script(Language::Python).is_ok());
    }
}
