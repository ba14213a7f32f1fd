// How many blocks a multiprocessor runs at once: as many as its registers, its shared memory and its threads allow.
//
// The assembler takes the registers that it likes. Where more blocks would fit but for some of them, it is asked again
// with a number of blocks as its aim, and what it makes then is taken unless it spills or warns.
#pragma once

#include "kiln/target/gpu.h"
#include "nvptx/assemble.h"

namespace kiln::codegen::nvptx {

struct BlockNeeds {
  int threads = 0;
  int64_t shared_bytes = 0;
  int64_t loaded_bytes = 0;  // by its largest load, of all programs of the block
};

// As far as is known; 1 at least.
int blocks_at_once(const std::optional<Resources>& resources, const BlockNeeds& needs, const target::NvidiaGpu& gpu);

// Of a kernel with products: so many blocks, if there would be one more than now, of few, for a fifth of the registers
// or less.
std::optional<int> blocks_in_reach(const Resources& resources, const BlockNeeds& needs, const target::NvidiaGpu& gpu);

// The same, or a third block of four warps whose products are by groups of warps.
std::optional<int> blocks_of_products(const Resources& resources, const BlockNeeds& needs, const target::NvidiaGpu& gpu,
                                      bool by_groups);
// Whether so many blocks are worth what they cost: nothing may be spilled for them, and no product wait for another; a
// third block of products by groups of warps is worth some spilled bytes, or else products that wait.
bool are_worth_it(const Resources& before, const Resources& after, int threads, int blocks, bool by_groups,
                  const target::NvidiaGpu& gpu);

// Of a kernel that waits for memory: how many blocks are worth asking for, most first: up to 1024 threads, at least two
// blocks, or until their loads are what memory wants to be under way; more than there are, and not so many that most
// registers would have to be spilled.
std::vector<int> worthwhile_blocks(const Resources& resources, const BlockNeeds& needs, const target::NvidiaGpu& gpu);

// As `assemble`. For memory, two blocks instead of one are worth a few spilled bytes, and more blocks where there are
// many barriers.
Result<std::optional<Assembled>> assemble_for_products(const std::string& ptx, const target::NvidiaGpu& gpu,
                                                       const BlockNeeds& needs, bool line_tables);
Result<std::optional<Assembled>> assemble_for_memory(const std::string& ptx, const target::NvidiaGpu& gpu,
                                                     const BlockNeeds& needs, bool line_tables);

}  // namespace kiln::codegen::nvptx
