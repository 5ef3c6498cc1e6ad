//! A trace as PyTorch's profiler writes it: operators of the host, calls of the runtime and
//! the kernels that they launch, linked by correlation, with the arguments that Kineto adds.
//!
//! Three events in turn: an operator, in it a call, and later its kernel on one of two
//! streams. Times are microseconds with three decimals. The seed is fixed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::random::Random;

const SEED: u64 = 0x5eed;
const OPERATORS: [&str; 8] = [
    "aten::mm",
    "aten::addmm",
    "aten::native_layer_norm",
    "aten::scaled_dot_product_attention",
    "aten::gelu",
    "aten::add",
    "aten::copy_",
    "aten::softmax",
];
const KERNELS: [&str; 8] = [
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8",
    "void vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float*)",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
    "void vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>(int)",
    "void vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::BFloat16>>(int)",
    "void unrolled_elementwise_kernel<direct_copy_kernel_cuda>(int)",
    "void cunn_SoftMaxForwardSmem<8, c10::BFloat16, float>(c10::BFloat16*, int)",
];

/// Writes so many events; returns the length in bytes.
pub(crate) fn trace(path: &Path, events: u64) -> Result<u64> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut random = Random::new(SEED);
    write!(out, "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \"traceEvents\": [")?;
    // Nanoseconds, on a clock of today.
    let (mut now, mut free) = (1_711_964_646_000_000_123_u64, [0_u64; 2]);
    for nth in 0..events.div_ceil(3) {
        let which = random.below(OPERATORS.len() as u64) as usize;
        let (length, inner) = (3_000 + random.below(20_000), 1_000 + random.below(1_500));
        let stream = random.below(2) as usize;
        let comma = if nth == 0 { "" } else { "," };
        write!(
            out,
            "{comma}\n  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 4242, \"tid\": 4242,\n    \
             \"ts\": {}, \"dur\": {},\n    \"args\": {{ \"External id\": {nth} }}\n  }}",
            OPERATORS[which],
            Us(now),
            Us(length),
        )?;
        let call = now + 1_000;
        write!(
            out,
            ",\n  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4242, \"tid\": 4242,\n    \
             \"ts\": {}, \"dur\": {},\n    \"args\": {{ \"External id\": {nth}, \"cbid\": 211, \"correlation\": {} }}\n  }}",
            Us(call),
            Us(inner),
            nth + 1,
        )?;
        let start = free[stream].max(call + 2_000);
        let kernel = 2_000 + random.below(30_000);
        free[stream] = start + kernel;
        write!(
            out,
            ",\n  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": {},\n    \
             \"ts\": {}, \"dur\": {},\n    \"args\": {{ \"External id\": {nth}, \"device\": 0, \"stream\": {}, \"correlation\": {},\n      \"registers per thread\": {}, \"shared memory\": {},\n      \"grid\": [{}, 1, 1], \"block\": [256, 1, 1] }}\n  }}",
            KERNELS[which],
            7 + 13 * stream,
            Us(start),
            Us(kernel),
            7 + 13 * stream,
            nth + 1,
            16 * (1 + random.below(15)),
            1_024 * random.below(48),
            1 + random.below(4_096),
        )?;
        now += length + 500;
    }
    write!(out, "\n  ]\n}}\n")?;
    out.flush()?;
    Ok(out.get_ref().metadata()?.len())
}

/// Nanoseconds as microseconds.
struct Us(u64);

impl std::fmt::Display for Us {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}
