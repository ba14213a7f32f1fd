// Arrays of the caller's as the client has them, and back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln.h"
#include "kiln/client/array.h"
#include "objects.h"

namespace kiln::c {

Result<dsl::ElementType> element_of(kiln_type type, const char* what);
kiln_type type_of(dsl::ElementType element);
// "cuda", "amd"; "cpu" of the host.
Result<std::string> device_kind(uint32_t device);
// Of a target's or a DeviceInfo's kind.
uint32_t device_of(std::string_view kind);
Place place_of(const Device& device);

// What an array is called in errors: "input 3 (`w`)", made only when there is one.
struct ArrayName {
  const char* role;
  size_t index;
  const char* name = nullptr;
  std::string text() const;
};

// Checks what can be known of an array alone, and fills in `to`, whose memory it uses again. `place`: where arrays of a
// device have to be; the host's are always allowed.
Result<void> read_array(const kiln_array& from, const ArrayName& name, const Place& place, ArrayView& to);

// Of an array that `view` has, whose shape and strides it borrows.
kiln_array show_array(const ArrayView& view, const Place& place);

}  // namespace kiln::c
