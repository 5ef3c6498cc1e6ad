//! What a kernel does, by its name: there is nothing else to go by.
//!
//! Three categories, as Holistic Trace Analysis has them (computation,
//! communication, memory), and a finer kind within each. The first rule with a
//! pattern in the lowercase base name wins; where none has, the whole name is
//! asked, for libraries that have one kernel with everything in its arguments
//! (`cutlass::Kernel<...gemm...>`). A wrong guess is possible and changes labels
//! and communication overlap, never times.

use ringscope_format::Kind;

use super::names::base_name;

/// What the time of a device goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Kernels that compute.
    Computation,
    /// Kernels that talk to other devices.
    Communication,
    /// Copies and fills.
    Memory,
}

impl Category {
    /// All of them.
    pub const ALL: [Category; 3] =
        [Category::Computation, Category::Communication, Category::Memory];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Category::Computation => "computation",
            Category::Communication => "communication",
            Category::Memory => "memory",
        }
    }
}

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// What its time goes to.
    pub category: Category,
    /// What it does: `gemm`, `attention`, `all-reduce`, `copy`.
    pub kind: &'static str,
}

/// Names with one of these patterns are of this kind.
struct Rule {
    kind: &'static str,
    patterns: &'static [&'static str],
    /// Why these patterns, or why in this place.
    #[cfg_attr(not(test), allow(dead_code))]
    why: &'static str,
}

/// Names of collectives that tell without a library's name beside them.
const COMMUNICATION: [Rule; 6] = [
    Rule {
        kind: "all-reduce",
        patterns: &["allreduce", "all_reduce", "cross_device_reduce"],
        why: "nccl, rccl, vendor and vLLM one-shot kernels",
    },
    Rule {
        kind: "reduce-scatter",
        patterns: &["reducescatter", "reduce_scatter"],
        why: "before all-gather: fused kernels name both, and this half computes",
    },
    Rule { kind: "all-gather", patterns: &["allgather", "all_gather"], why: "sharded weights" },
    Rule { kind: "all-to-all", patterns: &["alltoall", "all_to_all"], why: "experts" },
    Rule {
        kind: "send/receive",
        patterns: &["sendrecv", "send_recv"],
        why: "pipelines; `send` alone is in too many names",
    },
    Rule {
        kind: "communication",
        patterns: &["nccl", "rccl", "oneccl", "nvshmem", "mscclpp", "rocshmem"],
        why: "whatever else the libraries run, broadcast and reduce among it",
    },
];

/// Kernels that only move or set bytes.
const MEMORY: [Rule; 2] = [
    Rule {
        kind: "copy",
        patterns: &["memcpy", "rocclr_copy", "copybuffer"],
        why: "copies that a tracer reports as kernels: HIP and Metal copy with blit kernels",
    },
    Rule {
        kind: "fill",
        patterns: &["memset", "rocclr_fill", "fillbuffer"],
        why: "the same for fills",
    },
];

/// In this order: names often have two of these words, and the rarer one says more.
const COMPUTATION: [Rule; 13] = [
    Rule {
        kind: "attention",
        patterns: &["flash", "fmha", "attn", "attention", "sdpa", "fused_mha"],
        why: "first: fused attention has gemm and softmax in its name",
    },
    Rule {
        kind: "convolution",
        patterns: &[
            "convol",
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_",
            "_conv",
            "::conv",
            "implicit_gemm",
            "implicitgemm",
            "fprop",
            "dgrad",
            "wgrad",
            "winograd",
            "scudnn",
            "im2col",
            "col2im",
        ],
        why: "before gemm: implicit gemm is how they compute; `conv` alone is in `convert`",
    },
    Rule {
        kind: "gemm",
        patterns: &[
            "gemm",
            "gemv",
            "matmul",
            "mul_mat",
            "mul_mm",
            "mul_mv",
            "cijk_",
            "splitk",
            "cublas",
            "_mm_",
            "dot_product",
            "wmma",
            "xmma",
        ],
        why: "cijk_ is Tensile (rocBLAS, hipBLASLt); splitk sums up the parts of one; mul_mm is ggml",
    },
    Rule { kind: "softmax", patterns: &["softmax"], why: "before reduction, which it contains" },
    Rule {
        kind: "normalisation",
        patterns: &[
            "layernorm",
            "layer_norm",
            "rmsnorm",
            "rms_norm",
            "batchnorm",
            "batch_norm",
            "groupnorm",
            "group_norm",
            "instancenorm",
            "instance_norm",
            "weight_norm",
            "norm_kernel",
            "normalize",
            "::bn_",
            "bn_fw",
            "bn_bw",
            "rowwisemoments",
        ],
        why: "bn_ is cuDNN's; `norm` alone is in `normal`, which is a distribution",
    },
    Rule {
        kind: "random",
        patterns: &[
            "distribution_",
            "philox",
            "curand",
            "rocrand",
            "random",
            "dropout",
            "bernoulli",
            "multinomial",
        ],
        why: "before elementwise: distribution_elementwise; `rand` alone is in `operand`",
    },
    Rule {
        kind: "sort",
        patterns: &["sort", "topk", "top_k", "radix", "bitonic"],
        why: "also the selection of the largest",
    },
    Rule {
        kind: "elementwise",
        patterns: &["rotary", "rope_", "triton_poi_", "multi_tensor_apply"],
        why: "before embedding, which rotary embeddings are not",
    },
    Rule {
        kind: "embedding",
        patterns: &["embedding", "indexselect", "index_select", "gather", "scatter", "index_"],
        why: "looking up rows by index",
    },
    Rule { kind: "pooling", patterns: &["pool"], why: "max and average pooling, both ways" },
    Rule {
        kind: "reduction",
        patterns: &["reduc", "argmax", "argmin", "cumsum", "scan", "triton_red_", "triton_per_"],
        why: "triton's persistent reductions are called per",
    },
    Rule {
        kind: "elementwise",
        patterns: &[
            "elementwise",
            "pointwise",
            "unary",
            "binary",
            "gelu",
            "silu",
            "relu",
            "sigmoid",
            "affine",
            "cast_",
        ],
        why: "PyTorch's generic kernels, activations, candle's own",
    },
    Rule {
        kind: "layout",
        patterns: &["tonhwc", "tonchw", "transpose", "permute", "catarray", "contiguous", "copy"],
        why: "kernels that rearrange: behind elementwise, whose arguments may be a copy",
    },
];

/// What a record of this kind and name is.
pub fn classify(kind: Kind, name: &str) -> Class {
    match kind {
        Kind::COPY => return Class { category: Category::Memory, kind: "copy" },
        Kind::FILL => return Class { category: Category::Memory, kind: "fill" },
        _ => {}
    }
    let base = base_name(name).to_lowercase();
    let rules = [
        (Category::Communication, &COMMUNICATION[..]),
        (Category::Memory, &MEMORY),
        (Category::Computation, &COMPUTATION),
    ];
    for (category, rules) in rules {
        if let Some(kind) = matching(rules, &base) {
            return Class { category, kind };
        }
    }
    let kind = matching(&COMPUTATION, &name.to_lowercase()).unwrap_or("other");
    Class { category: Category::Computation, kind }
}

fn matching(rules: &[Rule], name: &str) -> Option<&'static str> {
    let has = |rule: &&Rule| rule.patterns.iter().any(|pattern| name.contains(pattern));
    rules.iter().find(has).map(|rule| rule.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_real_traces_are_what_they_are() {
        for (name, kind) in [
            ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "gemm"),
            ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64", "gemm"),
            (
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass::Params)",
                "gemm",
            ),
            (
                "void cublasLt::splitKreduce_kernel<32, 16, int>(cublasLt::cublasSplitKParams<float>)",
                "gemm",
            ),
            ("kernel_mul_mm_q4_0_f32", "gemm"),
            ("attn_fwd", "attention"),
            (
                "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Traits<64, 128>>(int)",
                "attention",
            ),
            ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32", "convolution"),
            (
                "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32>(int)",
                "convolution",
            ),
            (
                "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolution",
                "convolution",
            ),
            ("void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*)", "convolution"),
            (
                "void at::native::elementwise_kernel<128, 4, at::direct_copy_kernel_cuda>(int)",
                "elementwise",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda>(int)",
                "elementwise",
            ),
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
                "reduction",
            ),
            ("void cudnn::bn_bw_1C11_kernel_new<float, 128>(float)", "normalisation"),
            (
                "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)",
                "normalisation",
            ),
            ("void (anonymous namespace)::softmax_warp_backward<float>(float*)", "softmax"),
            (
                "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16>(int)",
                "embedding",
            ),
            (
                "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(int)",
                "random",
            ),
            ("void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<int>(int)", "sort"),
            ("void cudnn::ops::nchwToNhwcKernel<float, float>(int)", "layout"),
            ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<int>(int)", "layout"),
            ("triton_poi_fused_mul_silu_0", "elementwise"),
            ("rotary_embedding_kernel", "elementwise"),
            ("convert_f32_to_bf16", "other"),
            ("my_operand_kernel", "other"),
        ] {
            let class = classify(Kind::KERNEL, name);
            assert_eq!((class.category, class.kind), (Category::Computation, kind), "{name}");
        }
    }

    #[test]
    fn communication_and_memory_are_apart_from_computation() {
        for (name, category, kind) in [
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
                Category::Communication,
                "all-reduce",
            ),
            (
                "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)",
                Category::Communication,
                "reduce-scatter",
            ),
            ("rcclGenericKernel", Category::Communication, "communication"),
            ("ncclDevKernel_SendRecv(int)", Category::Communication, "send/receive"),
            (
                "void vllm::cross_device_reduce_1stage<half, 8>(int)",
                Category::Communication,
                "all-reduce",
            ),
            ("__amd_rocclr_copyBuffer", Category::Memory, "copy"),
            ("Memset (Device)", Category::Memory, "fill"),
        ] {
            assert_eq!(classify(Kind::KERNEL, name), Class { category, kind }, "{name}");
        }
        assert_eq!(classify(Kind::COPY, "weights of attention").kind, "copy");
        assert_eq!(classify(Kind::FILL, "zero the gemm workspace").category, Category::Memory);
    }

    #[test]
    fn every_rule_says_why_and_is_written_as_it_is_compared() {
        for rule in COMMUNICATION.iter().chain(&MEMORY).chain(&COMPUTATION) {
            assert!(!rule.why.is_empty() && !rule.patterns.is_empty(), "{}", rule.kind);
            assert!(rule.patterns.iter().all(|it| *it == it.to_lowercase()), "{}", rule.kind);
        }
    }
}
