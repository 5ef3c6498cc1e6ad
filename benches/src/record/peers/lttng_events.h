/* The two events of a span, in the form that LTTng-UST asks for: its headers
 * include this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ringscope_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_EVENTS_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(ringscope_bench, begin, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(ringscope_bench, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(ringscope_bench, outer_begin, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(ringscope_bench, outer_end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
#endif

#include <lttng/tracepoint-event.h>
