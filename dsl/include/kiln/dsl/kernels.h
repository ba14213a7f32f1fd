// The kernel library. Each function of kernels/*.h traces its kernel once per process and element type and returns it;
// f16 and bf16 are computed in f32. Arrays are row-major.
//
// Parameters in launch order stand above each kernel, with the Consts that a config chooses. The defaults suit CPUs;
// those for GPUs stand beside them. docs/use/kernels.md lists them all.
#pragma once

#include <span>

#include "kiln/dsl/kernels/attention.h"
#include "kiln/dsl/kernels/attention_backward.h"
#include "kiln/dsl/kernels/attention_decode.h"
#include "kiln/dsl/kernels/attention_f8.h"
#include "kiln/dsl/kernels/boxes.h"
#include "kiln/dsl/kernels/conv2d.h"
#include "kiln/dsl/kernels/elementwise.h"
#include "kiln/dsl/kernels/embedding.h"
#include "kiln/dsl/kernels/embedding_bag.h"
#include "kiln/dsl/kernels/grouped.h"
#include "kiln/dsl/kernels/many.h"
#include "kiln/dsl/kernels/matmul.h"
#include "kiln/dsl/kernels/matmul_f8.h"
#include "kiln/dsl/kernels/matmul_fused.h"
#include "kiln/dsl/kernels/matmul_gated.h"
#include "kiln/dsl/kernels/matmul_orders.h"
#include "kiln/dsl/kernels/norms.h"
#include "kiln/dsl/kernels/optimisers.h"
#include "kiln/dsl/kernels/optimisers_adam.h"
#include "kiln/dsl/kernels/order.h"
#include "kiln/dsl/kernels/packed.h"
#include "kiln/dsl/kernels/pages.h"
#include "kiln/dsl/kernels/pooling.h"
#include "kiln/dsl/kernels/quantised.h"
#include "kiln/dsl/kernels/quantised_weights.h"
#include "kiln/dsl/kernels/reductions.h"
#include "kiln/dsl/kernels/sampler.h"
#include "kiln/dsl/kernels/selective_scan.h"
#include "kiln/dsl/kernels/softmax.h"

namespace kiln::dsl {

// A kernel of the library for f32 (or what its name says), by name.
struct LibraryKernel {
  std::string_view name;
  const Result<Kernel>* ir;
};
std::span<const LibraryKernel> library_kernels();

}  // namespace kiln::dsl

namespace kiln {
namespace kernels = dsl::lang::kernels;
}
