//! The attribute `#[ringscope::instrument]`.
//!
//! Works on tokens and needs no parser: the name is the identifier behind `fn`,
//! the body is the last braced group. That keeps what people build small. What a
//! `macro_rules!` was given as a block or an item comes in a group without delimiters.

use proc_macro::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Puts a span around the body of a function.
///
/// The span has the function's name, or the one given: `#[instrument("decode")]`.
/// For an `async` function it is an asynchronous span, which lasts from the first
/// poll to the end and may move between threads.
#[proc_macro_attribute]
pub fn instrument(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match expand(arguments, item) {
        Ok(tokens) => tokens,
        Err(message) => format!("compile_error!({message:?});").parse().unwrap_or_default(),
    }
}

fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, String> {
    let mut tokens = without_wrapping(item);
    let is_word = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(name) if name.to_string() == word);
    let keyword = tokens
        .iter()
        .position(|token| is_word(token, "fn"))
        .ok_or("`instrument` goes before a function")?;
    let name = match tokens.get(keyword + 1) {
        Some(TokenTree::Ident(name)) => name.to_string(),
        _ => return Err("`instrument` goes before a function with a name".into()),
    };
    let name = name.trim_start_matches("r#").to_owned();
    let is_async = tokens[..keyword].iter().any(|token| is_word(token, "async"));
    if tokens[..keyword].iter().any(|token| is_word(token, "const")) {
        return Err("a `const fn` cannot record a span".into());
    }
    let last = tokens.pop().map(|last| without_wrapping(last.into()));
    let body = match last.as_deref() {
        Some([TokenTree::Group(body)]) if body.delimiter() == Delimiter::Brace => body.clone(),
        _ => return Err("`instrument` goes before a function with a body".into()),
    };
    let label = label(arguments, &name)?;
    let macro_name = if is_async { "async_span" } else { "span" };
    // The guard's name cannot clash: hygiene does not help here, an odd name does.
    let open: TokenStream = format!("let __ringscope_span = ::ringscope::{macro_name}!({label});")
        .parse()
        .map_err(|_| "the name of the span is not a literal")?;
    // Attributes of the body, `//!` among them, may stand nowhere but at its beginning.
    let mut inside: Vec<TokenTree> = body.stream().into_iter().collect();
    let statements = inside.split_off(inner_attributes(&inside));
    inside.extend(open);
    inside.extend(statements);
    let mut group = Group::new(Delimiter::Brace, inside.into_iter().collect());
    group.set_span(body.span());
    tokens.push(TokenTree::Group(group));
    Ok(tokens.into_iter().collect())
}

/// The tokens, taken out of the groups without delimiters that hold all of them.
fn without_wrapping(stream: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = stream.into_iter().collect();
    while let [TokenTree::Group(group)] = tokens.as_slice()
        && group.delimiter() == Delimiter::None
    {
        tokens = group.stream().into_iter().collect();
    }
    tokens
}

/// How many tokens the inner attributes are that a body begins with.
fn inner_attributes(body: &[TokenTree]) -> usize {
    let is_attribute = |tokens: &&[TokenTree]| match tokens {
        [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)] => {
            (hash.as_char(), bang.as_char()) == ('#', '!')
                && group.delimiter() == Delimiter::Bracket
        }
        _ => false,
    };
    body.chunks(3).take_while(is_attribute).count() * 3
}

/// The literal to name the span by.
fn label(arguments: TokenStream, function: &str) -> Result<Literal, String> {
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (None, _) => Ok(Literal::string(function)),
        (Some(TokenTree::Literal(given)), None) if given.to_string().starts_with(['"', 'r']) => {
            Ok(given)
        }
        _ => Err("`instrument` takes one text: the name of the span".into()),
    }
}
