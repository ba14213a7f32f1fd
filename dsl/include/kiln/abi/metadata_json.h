// Metadata as JSON values, for those who have them as such.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kiln/abi/metadata.h"

namespace kiln::abi {

nlohmann::json to_json(const Metadata& metadata);
// As read_metadata.
Result<Metadata> metadata_of(const nlohmann::json& json);

}  // namespace kiln::abi
