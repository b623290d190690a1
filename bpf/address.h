/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Addresses of sockets as programs give them, and what the network says of them. */
#ifndef PROBE_ADDRESS_H
#define PROBE_ADDRESS_H

#include "call.h"

#define DNS_PORT 53

struct sockaddr_bytes {
	u16 family;
	u16 port;
	u8 address[16] __attribute__((aligned(4)));
};

struct sockaddr_head {
	u16 family;
	__be16 port;
	u8 in4[4];
	u8 in6[16];
};

static __always_inline u16 host_order(__be16 value)
{
	return __builtin_bswap16(value);
}

static __always_inline void read_peer(struct sockaddr_bytes *out, u64 address)
{
	struct sockaddr_head raw = {};

	bpf_probe_read_user(&raw, 8, (void *)address);
	out->family = raw.family;
	out->port = host_order(raw.port);
	if (raw.family == AF_INET6) {
		bpf_probe_read_user(&raw, sizeof(raw), (void *)address);
		__builtin_memcpy(out->address, raw.in6, 16);
	} else {
		__builtin_memcpy(out->address, raw.in4, 4);
	}
}

static __always_inline u32 thing_of_address(struct sockaddr_bytes *peer)
{
	u32 *words = (u32 *)peer->address;

	return words[0] ^ words[1] ^ words[2] ^ words[3] ^ 1;
}

static __always_inline bool bind_error(const volatile u64 file_errnos[3], s64 ret)
{
	return ret == -EADDRINUSE || ret == -EADDRNOTAVAIL || ret == -EAFNOSUPPORT ||
	       among(file_errnos, -ret);
}

static __always_inline bool network_error(s64 ret)
{
	return ret == -ECONNREFUSED || ret == -ECONNRESET || ret == -ETIMEDOUT ||
	       ret == -EHOSTUNREACH || ret == -ENETUNREACH || ret == -EPERM;
}

#endif
