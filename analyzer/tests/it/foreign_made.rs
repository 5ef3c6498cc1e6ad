//! Small files of other profilers' formats, made up here: what `testdata/foreign` holds.

/// Begin and end, a complete event, and an array that was never closed.
pub(crate) const CHROME_ARRAY: &str = r#"[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"server"}},
{"ph":"M","pid":1,"tid":10,"name":"thread_name","args":{"name":"accept"}},
{"ph":"B","pid":1,"tid":10,"name":"request","ts":0,"args":{"path":"/index"}},
{"ph":"X","pid":1,"tid":10,"name":"read","ts":2.5,"dur":5.001},
{"ph":"X","pid":1,"tid":10,"name":"write","ts":9,"dur":1.25},
{"ph":"E","pid":1,"tid":10,"name":"request","ts":14},
{"ph":"B","pid":1,"tid":10,"name":"request","ts":20},
"#;

/// The object form, with asynchronous spans, arrows, counters and moments.
pub(crate) const CHROME_OBJECT: &str = r#"{"displayTimeUnit":"ns","otherData":{"version":"1.2"},"traceEvents":[
{"ph":"X","pid":1,"tid":1,"name":"send","cat":"net","ts":0,"dur":10},
{"ph":"X","pid":1,"tid":2,"name":"receive","cat":"net","ts":20,"dur":10,"args":{"bytes":512,"from":{"host":"a"}}},
{"ph":"s","cat":"msg","name":"m","id":5,"pid":1,"tid":1,"ts":4},
{"ph":"f","bp":"e","cat":"msg","name":"m","id":5,"pid":1,"tid":2,"ts":20},
{"ph":"b","cat":"get","id":"0x1","pid":1,"tid":1,"name":"get","ts":1},
{"ph":"b","cat":"get","id":"0x2","pid":1,"tid":1,"name":"get","ts":2},
{"ph":"e","cat":"get","id":"0x1","pid":1,"tid":2,"name":"get","ts":25},
{"ph":"e","cat":"get","id":"0x2","pid":1,"tid":2,"name":"get","ts":29.5},
{"ph":"C","name":"queue","pid":1,"ts":5,"args":{"in":3,"out":-2.5}},
{"ph":"C","name":"queue","pid":1,"ts":15,"args":{"in":1,"out":0}},
{"ph":"i","s":"t","name":"mark","pid":1,"tid":1,"ts":3,"args":{"ok":true}},
{"ph":"P","name":"sample","pid":1,"tid":1,"ts":3}
],"stackFrames":{}}
"#;

/// A step of PyTorch: operations, launches, kernels on two streams, a copy, memory.
pub(crate) const KINETO: &str = r#"{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "Example GPU", "totalGlobalMem": 42297524224}],
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
  "baseTimeNanoseconds": 1711964646000000000,
  "traceEvents": [
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":9,"tid":9,"ts":1000.000,"dur":100.000,"args":{"External id":1}},
  {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":1010.000,"dur":20.500,"args":{"External id":2,"Input Dims":[[4,4],[4,4]]}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1012.000,"dur":3.001,"args":{"External id":2,"correlation":77}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1016.000,"dur":2.000,"args":{"External id":2,"correlation":79}},
  {"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":1019.125,"dur":41.407,"args":{"device":0,"stream":7,"correlation":77,"grid":[512,1,1],"block":[128,2,1]}},
  {"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce","pid":0,"tid":20,"ts":1040.000,"dur":30.000,"args":{"device":0,"stream":20,"correlation":79,"grid":[8,1,1],"block":[96,1,1]}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":1080.000,"dur":5.088,"args":{"device":0,"stream":7,"correlation":78,"bytes":4000}},
  {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":1011.000,"args":{"Total Reserved":2048,"Total Allocated":1024,"Bytes":512,"Addr":4096,"Device Id":0,"Device Type":1}},
  {"ph":"s","id":77,"pid":9,"tid":9,"ts":1012.000,"cat":"ac2g","name":"ac2g"},
  {"ph":"f","id":77,"pid":0,"tid":7,"ts":1019.125,"cat":"ac2g","name":"ac2g","bp":"e"}
  ]
}
"#;

/// Events as a table, with launches linked.
pub(crate) const CSV: &str = "kind,name,start_ns,dur_ns,track,link,bytes,status
launch,launchKernel,100,10,main,5,,ok
kernel,gemm,150,50,GPU 1 stream 2,5,,
copy,upload,250,50,GPU 1 stream 2,,4096,
span,\"step, \"\"first\"\"\",90,300,main,,,error
gauge,depth,95,,main,,,
";

/// The same table, a line an event.
pub(crate) const JSON_LINES: &str = r#"{"kind":"launch","name":"launchKernel","start_ns":100,"dur_ns":10,"track":"main","link":5,"status":"ok"}
{"kind":"kernel","name":"gemm","start_ns":150,"dur_ns":50,"track":"GPU 1 stream 2","link":5}
{"kind":"copy","name":"upload","start_ns":250,"dur_ns":50,"track":"GPU 1 stream 2","bytes":4096}
{"kind":"span","name":"step, \"first\"","start_ns":90,"end_ns":390,"track":"main","status":"error"}
{"kind":"gauge","name":"depth","start_ns":95,"track":"main"}
"#;

/// The files of one run, by their names.
pub(crate) const ROCPROF_CSV: [(&str, &str); 6] = [
    (
        "run_kernel_trace.csv",
        r#""Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,1,77,1,10,"void axpy<float, 2>(float*)",9,2241346127176383,2241346127202682,512,0,16,0,32,64,1,1,1024,1,1
"KERNEL_DISPATCH","Agent 4",1,1,77,2,10,"void axpy<float, 2>(float*)",11,2241346127276383,2241346127302682,512,0,16,0,32,64,1,1,1024,1,1
"#,
    ),
    (
        "run_hip_api_trace.csv",
        r#""Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipMemcpy",7,77,7,2241346127100000,2241346127105000
"HIP_RUNTIME_API","hipLaunchKernel",7,77,9,2241346127174083,2241346127175000
"HIP_RUNTIME_API","hipLaunchKernel",7,77,11,2241346127273383,2241346127275000
"HIP_RUNTIME_API","hipMemcpy",7,77,13,2241346127400000,2241346127405000
"#,
    ),
    (
        "run_memory_copy_trace.csv",
        r#""Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",1,"Agent 0","Agent 4",7,2241346127101000,2241346127104001
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",1,"Agent 4","Agent 0",13,2241346127400500,2241346127404500
"#,
    ),
    (
        "run_marker_api_trace.csv",
        r#""Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MARKER_CORE_API","before axpy",7,77,1,2241346127090000,2241346127090000
"MARKER_CORE_API","axpy",7,77,8,2241346127170000,2241346127280000
"MARKER_CORE_API","whole run",7,0,2,2241346127080000,2241346127500000
"#,
    ),
    (
        "run_memory_allocation_trace.csv",
        r#""Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",4096,"0x00007ffb26354000",3,2241346127082238,2241346127083655
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,"0x00007ffb26354000",17,2241346127482238,2241346127483655
"#,
    ),
    (
        "run_scratch_memory_trace.csv",
        r#""Kind","Operation","Agent_Id","Queue_Id","Thread_Id","Alloc_Flags","Start_Timestamp","End_Timestamp","Allocation_Size"
"SCRATCH_MEMORY","SCRATCH_MEMORY_ALLOC","Agent 4",1,77,1,2241346127175100,2241346127175900,173015040
"#,
    ),
];

/// The same run as JSON.
pub(crate) const ROCPROF_JSON: &str = r#"{"rocprofiler-sdk-tool": [{
"metadata": {"pid": 7, "init_time": 1, "fini_time": 2, "command": ["./axpy", "64"]},
"agents": [
 {"size": 296, "id": {"handle": 11}, "type": 1, "name": "Example CPU", "node_id": 0, "logical_node_id": 0, "product_name": ""},
 {"size": 296, "id": {"handle": 14}, "type": 2, "name": "gfx942", "node_id": 4, "logical_node_id": 1, "product_name": "MI300X"}],
"counters": [],
"strings": {
 "callback_records": [],
 "buffer_records": [
  {"kind": "NONE", "operations": []},
  {"kind": "HIP_RUNTIME_API", "operations": ["none", "hipLaunchKernel", "hipMemcpy"]},
  {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA", "roctxRangeStartA"]},
  {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"]},
  {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_COMPLETE"]},
  {"kind": "MEMORY_ALLOCATION", "operations": ["MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE"]}],
 "marker_api": [{"key": 1, "value": "before axpy"}, {"key": 2, "value": "whole step"}],
 "correlation_id": {"external": []}},
"code_objects": [],
"kernel_symbols": [
 {"size": 0, "kernel_id": 0, "kernel_name": "", "formatted_kernel_name": ""},
 {"size": 80, "kernel_id": 10, "kernel_name": "_Z4axpyILi2EEvPf.kd", "truncated_kernel_name": "axpy", "formatted_kernel_name": "void axpy<float, 2>(float*)"}],
"host_functions": [],
"callback_records": {"counter_collection": []},
"buffer_records": {"kernel_dispatch": [
  {"size": 152, "kind": 4, "operation": 1, "thread_id": 77, "correlation_id": {"internal": 9, "external": 0}, "start_timestamp": 2241346127176383, "end_timestamp": 2241346127202682,
   "dispatch_info": {"size": 72, "agent_id": {"handle": 14}, "queue_id": {"handle": 1}, "kernel_id": 10, "dispatch_id": 1, "private_segment_size": 0, "group_segment_size": 512, "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 1024, "y": 1, "z": 1}}, "stream_id": {"handle": 1}},
  {"size": 152, "kind": 4, "operation": 1, "thread_id": 77, "correlation_id": {"internal": 11, "external": 0}, "start_timestamp": 2241346127276383, "end_timestamp": 2241346127302682,
   "dispatch_info": {"size": 72, "agent_id": {"handle": 14}, "queue_id": {"handle": 1}, "kernel_id": 10, "dispatch_id": 2, "private_segment_size": 0, "group_segment_size": 512, "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 1024, "y": 1, "z": 1}}, "stream_id": {"handle": 1}}],
 "hip_api": [
  {"size": 56, "kind": 1, "operation": 1, "correlation_id": {"internal": 9, "external": 0}, "start_timestamp": 2241346127174083, "end_timestamp": 2241346127175000, "thread_id": 77},
  {"size": 56, "kind": 1, "operation": 1, "correlation_id": {"internal": 11, "external": 0}, "start_timestamp": 2241346127273383, "end_timestamp": 2241346127275000, "thread_id": 77},
  {"size": 56, "kind": 1, "operation": 2, "correlation_id": {"internal": 13, "external": 0}, "start_timestamp": 2241346127400000, "end_timestamp": 2241346127405000, "thread_id": 77}],
 "hsa_api": [],
 "marker_api": [
  {"size": 56, "kind": 2, "operation": 0, "correlation_id": {"internal": 1, "external": 0}, "start_timestamp": 2241346127090000, "end_timestamp": 2241346127090010, "thread_id": 77},
  {"size": 56, "kind": 2, "operation": 1, "correlation_id": {"internal": 2, "external": 0}, "start_timestamp": 2241346127170000, "end_timestamp": 2241346127410000, "thread_id": 77}],
 "memory_copy": [
  {"size": 80, "kind": 3, "operation": 2, "correlation_id": {"internal": 13, "external": 0}, "start_timestamp": 2241346127400500, "end_timestamp": 2241346127404500, "thread_id": 77, "dst_agent_id": {"handle": 11}, "src_agent_id": {"handle": 14}, "bytes": 4096}],
 "memory_allocation": [
  {"size": 80, "kind": 5, "operation": 1, "correlation_id": {"internal": 3, "external": 0}, "start_timestamp": 2241346127082238, "end_timestamp": 2241346127083655, "thread_id": 77, "agent_id": {"handle": 14}, "address": 140716462800896, "allocation_size": 4096}],
 "scratch_memory": []}
}]}
"#;

/// The statements that make an export of Nsight Systems.
#[cfg(feature = "nsight")]
pub(crate) const NSIGHT: &str = "
PRAGMA page_size = 512;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel'), (4, 'worker'), (5, 'forward');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
 correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1500, 1, 7, 11, 83886080, 1, 64, 2, 1),
 (2000, 2250, 1, 7, 12, 83886080, 1, 64, 2, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
 bytes INTEGER, copyKind INTEGER, globalPid INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (4000, 4010, 1, 7, 4096, 1, 83886080);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 910, 83886086, 11, 2), (920, 930, 83886086, 12, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES (890, 990, 59, NULL, 5, 83886086);
CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER);
INSERT INTO ThreadNames VALUES (4, 83886086);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1696392839587175550);
";
