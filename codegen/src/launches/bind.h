#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// Kernels of steps as kernels of their own: of the parameters that a sequence gives them only one is left, a pointer to
// the workspace, and program ids are those of the step's own grid.
//
//   kernel k(%a: ptr<f32>, %chunk: i32,        →   kernel k(%a: ptr<f32>, %workspace: ptr<f32>) {
//            %partial0: ptr<f32>) {                  %id = program_id {axis = 0}
//     %x = program_id {axis = 0}                     %chunk = rem %id, 4
//     …                                              %x = div %id, 4
//                                                    %partial0 = addptr %workspace, elements·(%x + …) + offset
//                                                    …
//
// Partial results have one type: launches/words.h sees to that.
void bind_steps(LaunchSequence& sequence);

}  // namespace kiln::codegen
