// A config: what a request chooses of a kernel for a target: the values of its constexprs, and launch options.
#pragma once

#include <array>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Launch options stand in a config beside the constexprs. num_warps: of a block of threads. num_stages: so many
// iterations' loads may be in flight, in place of the hint of every `for` whose hint is above 1. waves_per_eu: so many
// waves are to fit on a SIMD of an AMD GPU, which leaves fewer registers to each. chiplets: an AMD GPU has so many, to
// which it deals programs by turns; neighbours along the first axis of the grid are to run on the same one, whose cache
// they share. warp_specialise: 1 where a GPU that copies in bulk is to have warps that do nothing else, 2 where its
// blocks, as many as it runs at once, then take one program after another, 3 where these come from a queue that blocks
// share, for programs of different lengths, 4 where blocks have two at a time; 0: none. cluster: blocks are two
// and two, which load once for both what neighbours along the first axis of the grid load alike; 1 is none. split_k: a
// loop that adds up products is cut into so many parts, each of which a program of its own runs; their sums are added
// up by a second launch. stream_k: so many workers share the iterations of such loops of all programs evenly, in as
// many programs as split_k gives, and sums of what each had of a program are added up in the same way; 0 is none. CPUs
// have these two alone, the interpreter has none of them.
inline constexpr std::string_view kNumWarps = "num_warps";
inline constexpr std::string_view kNumStages = "num_stages";
inline constexpr std::string_view kWavesPerEu = "waves_per_eu";
inline constexpr std::string_view kChiplets = "chiplets";
inline constexpr std::string_view kWarpSpecialise = "warp_specialise";
inline constexpr std::string_view kSplitK = "split_k";
inline constexpr std::string_view kCluster = "cluster";
inline constexpr std::string_view kStreamK = "stream_k";
// In the order of their encoding.
inline constexpr std::array kLaunchOptions = {kNumWarps,       kNumStages, kWavesPerEu, kChiplets,
                                              kWarpSpecialise, kSplitK,    kCluster,    kStreamK};
inline constexpr std::string_view kLaunchOptionNames =
    "num_warps, num_stages, waves_per_eu, chiplets, warp_specialise, split_k, cluster or stream_k";
bool is_launch_option(std::string_view name);
// Error: what is allowed.
Result<void> check_launch_option(std::string_view name, int64_t value);

// "cuda" of "cuda:sm_90a".
std::string_view target_family(std::string_view target);
// Whether the defaults for `name` ("cuda", or "cuda:sm_90a") are for a target.
bool defaults_apply(std::string_view name, std::string_view target);
// What is wrong with an entry of Kernel::target_defaults; empty when nothing is.
std::string target_defaults_problem(const Kernel& kernel, std::string_view target, const ConstexprValues& values);

// All constexprs by name, and the launch options that are chosen: each as `values` says, else as the kernel's defaults
// for the target, the most particular first, else by the constexpr's default. Error for what is unknown or has no
// value. Targets without launch options get none, so that they make no difference. `target` may be empty: of no family.
Result<ConstexprValues> complete_constexprs(const Kernel& kernel, const ConstexprValues& values,
                                            std::string_view target = {});

}  // namespace kiln::dsl
