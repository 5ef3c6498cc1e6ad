//! Names of kernels, taken apart. They are C++ names as a demangler prints them,
//! or whatever else somebody called their kernel: a name that does not look like
//! C++, or whose brackets do not match, stays as it is.

/// The name without template arguments, parameter lists, return type `void` and
/// anonymous namespaces: `void at::native::reduce_kernel<512, 1>(int)` is
/// `at::native::reduce_kernel`.
pub fn base_name(name: &str) -> String {
    strip(name, false)
}

/// What tells a kernel from others in a few words, for people: its own name and
/// those among its template arguments, without namespaces, numbers and types that
/// most kernels have. `elementwise_kernel<BinaryFunctor, MulFunctor>` stands for
/// 700 characters. Not necessarily unlike the gist of another name.
pub fn gist(name: &str) -> String {
    let stripped = strip(name, true);
    if stripped.starts_with('<') || !(stripped.contains('<') || stripped.contains("::")) {
        return stripped;
    }
    let mut words: Vec<&str> = Vec::new();
    let mut rest = stripped.as_str();
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_part(c) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (word, behind) = rest.split_at(length);
        // A namespace, unless what follows is something without a name inside of it.
        let is_namespace = behind
            .strip_prefix("::")
            .is_some_and(|inner| !inner.starts_with(['{', '[']) && !inner.starts_with("operator"));
        let is_name = is_part(c) && !c.is_numeric() && before != '(' && before != '#';
        if is_name && !is_namespace && !COMMON.contains(&word) && !words.contains(&word) {
            words.push(word);
        }
        before = c;
        rest = behind;
    }
    match words.split_first() {
        None => stripped,
        Some((own, [])) => (*own).to_owned(),
        Some((own, others)) => format!("{own}<{}>", others.join(", ")),
    }
}

/// Words that do not tell kernels apart: types of numbers, and what PyTorch puts
/// around every functor.
const COMMON: [&str; 35] = [
    "float",
    "double",
    "int",
    "long",
    "short",
    "char",
    "bool",
    "unsigned",
    "signed",
    "void",
    "const",
    "true",
    "false",
    "half",
    "half_t",
    "bfloat16_t",
    "__half",
    "__nv_bfloat16",
    "BFloat16",
    "Half",
    "float2",
    "float4",
    "lambda",
    "operator",
    "array",
    "Array",
    "instance",
    "std",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "OffsetCalculator",
    "TrivialOffsetCalculator",
    "LoadWithCast",
    "StoreWithCast",
    "OpaqueType",
];

const ANONYMOUS: &str = "(anonymous namespace)::";

fn strip(name: &str, keep_templates: bool) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.strip_prefix("void ").unwrap_or(name);
    // Open brackets, and whether what they hold is dropped.
    let mut open: Vec<(char, bool)> = Vec::new();
    let mut dropping = 0_usize;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let mut kept = true;
        if rest.starts_with(ANONYMOUS) {
            taken = ANONYMOUS.len();
            kept = false;
        } else if let Some(symbol) = operator(&out, dropping, rest) {
            out.push_str(symbol);
            taken = symbol.len();
            kept = false;
        } else if c == '(' || c == '<' {
            // A parameter list or a list of arguments follows a name directly; a
            // parenthesis behind anything else is a cast or a remark.
            let follows_name = before.is_alphanumeric() || matches!(before, '_' | '>' | '}' | ')');
            let drops = follows_name && (c == '(' || !keep_templates);
            open.push((c, drops));
            dropping += usize::from(drops);
            kept = dropping == 0;
        } else if c == ')' || (c == '>' && before != '-') {
            kept = dropping == 0;
            let matching = if c == ')' { '(' } else { '<' };
            match open.last() {
                Some((bracket, drops)) if *bracket == matching => {
                    dropping -= usize::from(*drops);
                    if *drops && c == ')' && rest[taken..].starts_with(" const") {
                        taken += " const".len();
                    }
                    open.pop();
                }
                // `a > b` inside parentheses.
                Some(_) if c == '>' => {}
                _ => return name.to_owned(),
            }
        }
        if kept && dropping == 0 {
            out.push(c);
        }
        before = rest[..taken].chars().next_back().unwrap_or(c);
        rest = &rest[taken..];
    }
    if let Some(at) = out.rfind(" [clone ") {
        out.truncate(at);
    }
    if !open.is_empty() || out.trim().is_empty() { name.to_owned() } else { out.trim().to_owned() }
}

/// The symbol of an operator function, whose brackets are no brackets.
fn operator<'a>(out: &str, dropping: usize, rest: &'a str) -> Option<&'a str> {
    if dropping > 0 || !out.ends_with("operator") {
        return None;
    }
    ["()", "->", "<<", ">>", "<=", ">=", "<", ">"]
        .into_iter()
        .find(|symbol| rest.starts_with(symbol))
        .map(|symbol| &rest[..symbol.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names_have_no_arguments_and_no_parameters() {
        for (name, base) in [
            ("gemm_128x64", "gemm_128x64"),
            ("ncclKernel_AllReduce(ncclDevComm*, ncclWork*)", "ncclKernel_AllReduce"),
            (
                "void cudnn::bn_bw_1C11_kernel_new<float, 128, true, 1>(float)",
                "cudnn::bn_bw_1C11_kernel_new",
            ),
            (
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous \
                 namespace)::OpaqueType<2u>, unsigned int, 4>(int, long)",
                "at::native::CatArrayBatchedCopy",
            ),
            (
                "void (anonymous namespace)::softmax_warp_forward<float, 10, (Kind)2>(float*)",
                "softmax_warp_forward",
            ),
            (
                "void k<f(at::It&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int, g<a, b> const&)",
                "k",
            ),
            (
                "at::neg(at::It&)::{lambda()#2}::operator()() const",
                "at::neg::{lambda#2}::operator()",
            ),
            ("void outer<int>::inner<2>(int)", "outer::inner"),
            ("void reduce<int, (4 > 3)>(int)", "reduce"),
            ("kernel(int) [clone .kd]", "kernel"),
        ] {
            assert_eq!(base_name(name), base, "{name}");
        }
    }

    #[test]
    fn what_is_not_cplusplus_stays_as_it_is() {
        for name in [
            "Memcpy DtoH (Device -> Pinned)",
            "Memset (Device)",
            "_ZN19cutlass_cudnn_train6KernelINS_4convE",
            "half (open",
            "closed) twice)",
            "<unnamed>",
            "операция",
            "",
        ] {
            assert_eq!(base_name(name), name);
            assert_eq!(gist(name), name);
        }
    }

    #[test]
    fn the_gist_of_a_name_is_what_it_does() {
        for (name, expected) in [
            (
                "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native\
                 ::BinaryFunctor<c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> \
                 > >(at::TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16> const&)::{lambda(int)#1\
                 }>(int, at::native::BinaryFunctor<c10::BFloat16>)",
                "elementwise_kernel<BinaryFunctor, MulFunctor>",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda(at::It&)::\
                 {lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
                "vectorized_elementwise_kernel<neg_kernel_cuda>",
            ),
            (
                "void cudnn::ops::nchwToNhwcKernel<float, true, (cudnnType_t)2>(float*)",
                "nchwToNhwcKernel",
            ),
            ("void clover::par<PdV(bool, int)::[lambda(int) (instance 2)]>(T1)", "par<PdV>"),
            ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
            ("ampere_sgemm_32x32_sliced1x4_tn", "ampere_sgemm_32x32_sliced1x4_tn"),
        ] {
            assert_eq!(gist(name), expected, "{name}");
        }
    }
}
