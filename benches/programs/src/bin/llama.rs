//! A small llama of candle-transformers with random weights, on the processor, as
//! it comes: candle keeps a span for each attention, MLP and norm, and enters it for
//! every token.
//!
//! ```text
//! llama [--tokens N] [--layers N] [--hidden N] [--subscriber none|ringscope|chrome|json] [--file FILE]
//! ```
//!
//! Says on standard output, as `key value` lines, how many tokens it made, how long
//! that took, how much memory it held at most, and how large the file is.

use std::{collections::HashMap, fs, path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use candle_core::{D, DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama};
use tracing_subscriber::prelude::*;

struct Arguments {
    tokens: usize,
    layers: usize,
    hidden: usize,
    subscriber: String,
    file: PathBuf,
}

fn arguments() -> Result<Arguments> {
    let mut given = HashMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(key) = words.next() {
        let value = words.next().with_context(|| format!("{key}: needs a value"))?;
        given.insert(key, value);
    }
    let mut number = |key: &str, usual| given.remove(key).map_or(Ok(usual), |text| text.parse());
    let (tokens, layers, hidden) = (number("--tokens", 64)?, number("--layers", 8)?, number("--hidden", 256)?);
    let subscriber = given.remove("--subscriber").unwrap_or_else(|| "ringscope".into());
    let file = given.remove("--file").map_or_else(|| "llama.trace".into(), PathBuf::from);
    if let Some(key) = given.keys().next() {
        bail!("{key}: not an argument");
    }
    Ok(Arguments { tokens, layers, hidden, subscriber, file })
}

fn config(arguments: &Arguments) -> Config {
    Config {
        hidden_size: arguments.hidden,
        intermediate_size: arguments.hidden * 11 / 4,
        vocab_size: 1_000,
        num_hidden_layers: arguments.layers,
        num_attention_heads: 8,
        num_key_value_heads: 8,
        use_flash_attn: false,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: 4_096,
        tie_word_embeddings: false,
    }
}

/// Weights of the right shapes, small and all different, the same in every run.
fn weights(config: &Config, device: &Device) -> Result<HashMap<String, Tensor>> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |shape: &[usize]| -> Result<Tensor> {
        let values = (0..shape.iter().product::<usize>()).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 0.1
        });
        Ok(Tensor::from_vec(values.collect::<Vec<f32>>(), shape, device)?)
    };
    let (hidden, inner, vocabulary) = (config.hidden_size, config.intermediate_size, config.vocab_size);
    let mut all = HashMap::from([
        ("model.embed_tokens.weight".to_owned(), random(&[vocabulary, hidden])?),
        ("lm_head.weight".to_owned(), random(&[vocabulary, hidden])?),
        ("model.norm.weight".to_owned(), random(&[hidden])?),
    ]);
    for layer in 0..config.num_hidden_layers {
        let mut add = |name: &str, shape: &[usize]| -> Result<()> {
            all.insert(format!("model.layers.{layer}.{name}.weight"), random(shape)?);
            Ok(())
        };
        for projection in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("self_attn.{projection}"), &[hidden, hidden])?;
        }
        add("mlp.gate_proj", &[inner, hidden])?;
        add("mlp.up_proj", &[inner, hidden])?;
        add("mlp.down_proj", &[hidden, inner])?;
        add("input_layernorm", &[hidden])?;
        add("post_attention_layernorm", &[hidden])?;
    }
    Ok(all)
}

fn main() -> Result<()> {
    let arguments = arguments()?;
    let (mut recorder, mut chrome) = (None, None);
    match arguments.subscriber.as_str() {
        "none" => {}
        "ringscope" => {
            recorder = Some(ringscope::Recorder::builder().path(&arguments.file).start()?);
            ringscope::tracing::Subscriber::new().install()?;
        }
        "chrome" => {
            let builder = tracing_chrome::ChromeLayerBuilder::new().file(&arguments.file);
            let (layer, guard) = builder.build();
            tracing_subscriber::registry().with(layer).init();
            chrome = Some(guard);
        }
        "json" => {
            let file = fs::File::create(&arguments.file)?;
            use tracing_subscriber::fmt::format::FmtSpan;
            tracing_subscriber::fmt()
                .json()
                .with_max_level(tracing::Level::TRACE)
                .with_span_events(FmtSpan::ENTER | FmtSpan::EXIT)
                .with_writer(std::sync::Mutex::new(file))
                .init();
        }
        other => bail!("{other}: not a subscriber; none, ringscope, chrome or json"),
    }
    let device = Device::Cpu;
    let config = config(&arguments);
    let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
    let model = Llama::load(builder, &config)?;
    let mut cache = Cache::new(true, DType::F32, &config, &device)?;

    let begun = Instant::now();
    let mut token = 1_u32;
    for position in 0..arguments.tokens {
        let input = Tensor::new(&[[token]], &device)?;
        let logits = model.forward(&input, position, &mut cache)?;
        token = logits.argmax(D::Minus1)?.flatten_all()?.to_vec1::<u32>()?[0];
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("tokens {}", arguments.tokens);
    println!("last_token {token}");
    println!("seconds {seconds}");
    if let Some(recorder) = recorder {
        let summary = recorder.finish()?;
        println!("events {}", summary.stored);
        println!("lost {}", summary.lost);
    }
    drop(chrome);
    if arguments.subscriber != "none" {
        println!("file_bytes {}", fs::metadata(&arguments.file)?.len());
    }
    println!("peak_kib {}", peak_kib().unwrap_or(0));
    Ok(())
}

/// The most memory that this process has held, as Linux counts it.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}
