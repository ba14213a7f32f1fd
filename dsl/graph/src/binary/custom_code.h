// Code of the user's own for a kernel, in the binary forms of graphs and of plans:
//
//   [form, text, entry, file, threads, shared bytes]; the text as bytes
#pragma once

#include "binary/cbor_reader.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/graph/ir.h"

namespace kiln::graph {

void write_custom_code(const dsl::CustomCode& code, dsl::CborWriter& out);
// Throws BadBytes.
dsl::CustomCode read_custom_code(CborReader& in);

// [[target, code], …]
void write_codes(const std::vector<TileKernel::Code>& codes, dsl::CborWriter& out);
std::vector<TileKernel::Code> read_codes(CborReader& in);

}  // namespace kiln::graph
