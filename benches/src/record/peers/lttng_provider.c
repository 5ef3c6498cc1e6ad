/* Loops over spans, each a pair of LTTng-UST tracepoints. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"

void ringscope_bench_burst(unsigned spans)
{
	for (unsigned i = 0; i < spans; i++) {
		lttng_ust_tracepoint(ringscope_bench, begin);
		lttng_ust_tracepoint(ringscope_bench, end);
	}
}

void ringscope_bench_nested_burst(unsigned outers)
{
	for (unsigned i = 0; i < outers; i++) {
		lttng_ust_tracepoint(ringscope_bench, outer_begin);
		ringscope_bench_burst(4);
		lttng_ust_tracepoint(ringscope_bench, outer_end);
	}
}
