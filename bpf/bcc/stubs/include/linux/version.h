/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The oldest kernel that the programs are for: libbcc asks which helpers it has. */
#define KERNEL_VERSION(major, minor, patch) (((major) << 16) + ((minor) << 8) + (patch))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 10, 0)
