#![allow(unsafe_code,missing_docs)]
use std::time::Instant;
fn main(){
 let r=ringscope::Recorder::builder().path("/tmp/q.trace").start().unwrap();
 ringscope::register_thread();
 let tsc=||unsafe{core::arch::x86_64::_rdtsc()};
 let mut buf=vec![[0u64;4];8192]; 
 let mut fl=vec![];let mut sp=vec![];let mut hd=vec![]; 
 let h=ringscope::ThreadHandle::current();
 for _ in 0..400{
  let n=16384;
  let t=tsc(); for i in 0..n{let a=tsc(); std::hint::black_box(()); let b=tsc(); buf[i&8191]=[a,b-a,1,2]; std::hint::black_box(&buf);} fl.push((tsc()-t) as f64/n as f64);
  let t=tsc(); for _ in 0..n{let _s=ringscope::span!("bench"); std::hint::black_box(());} sp.push((tsc()-t) as f64/n as f64); r.flush();
  let t=tsc(); for _ in 0..n{let _s=ringscope::span!(in h,"bench2"); std::hint::black_box(());} hd.push((tsc()-t) as f64/n as f64); r.flush();
 }
 let med=|v:&mut Vec<f64>|{v.sort_by(|a,b|a.total_cmp(b)); v[v.len()/2]};
 let (f,s,h)=(med(&mut fl),med(&mut sp),med(&mut hd));
 println!("floor {f:.1} cyc span {s:.1} ({:.3}) handle {h:.1} ({:.3})",s/f,h/f);
 let t=Instant::now(); println!("{}",r.finish().unwrap()); println!("finish {:?}",t.elapsed());
 let mut v=vec![]; for _ in 0..50 {let n=100000; let t=Instant::now(); for _ in 0..n{let _s=ringscope::span!("off"); std::hint::black_box(());} v.push(t.elapsed().as_nanos() as f64/n as f64);} println!("off {:.2} ns",med(&mut v));
}
