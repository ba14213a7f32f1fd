// Hand-written assembly over the lanes of a wave: four dwords come in, eight go out.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "build.h"

namespace kiln::amdgcn_emulator {

using LaneInput = std::array<uint32_t, 4>;   // in v[2:5]
using LaneOutput = std::array<uint32_t, 8>;  // from v[10:17]

inline uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline bool is_wave64(const std::string& processor) { return processor.starts_with("gfx9"); }
inline unsigned lanes_of(const std::string& processor) { return is_wave64(processor) ? 64 : 32; }

// Runs one wave. v0 is the lane, v1 0; the outputs start as 0xaaaa0000 plus the lane. s[8:9] is a buffer of 1024 bytes
// of memory that starts with 0, 1, 2, … in dwords; it comes back in `memory` if that is given. s[10:11] holds EXEC.
std::vector<LaneOutput> run_lanes(const std::string& processor, const std::string& body,
                                  const std::vector<LaneInput>& inputs, std::vector<uint32_t>* memory = nullptr);

// Inputs whose dwords are the lane's number in several forms: lane, 100 + lane, f32 of lane, 1 << lane % 32.
std::vector<LaneInput> numbered_lanes(const std::string& processor);

// The same input in every lane.
std::vector<LaneInput> uniform_lanes(const std::string& processor, LaneInput input);

}  // namespace kiln::amdgcn_emulator
