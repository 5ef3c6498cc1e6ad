/* Empty functions that uftrace sees, in loops that it does not. */
#define SPAN static __attribute__((noinline)) void
#define UNSEEN __attribute__((no_instrument_function)) void

SPAN span(void)
{
	__asm__ volatile("");
}

SPAN outer(void)
{
	for (int i = 0; i < 4; i++)
		span();
}

UNSEEN ringscope_bench_burst(unsigned spans)
{
	for (unsigned i = 0; i < spans; i++)
		span();
}

UNSEEN ringscope_bench_nested_burst(unsigned outers)
{
	for (unsigned i = 0; i < outers; i++)
		outer();
}
