/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libbcc counts a ring in pages; those of the running kernel may be larger. */
#define PAGE_SIZE 4096
