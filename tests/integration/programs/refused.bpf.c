/* Two programs for one hook: every verifier refuses the first. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_exit")
int refused(u64 *context)
{
	return *(u8 *)context[0];
}

SEC("raw_tp/sys_exit")
int accepted(void *context)
{
	return 0;
}
