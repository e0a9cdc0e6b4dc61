package fetch

import "github.com/weftserve/weft/internal/ortlib"

// packageName is the npm package that carries the shared library for every platform, and Package is that of the pinned
// release. The package's install script is never run: it would fetch a CUDA build from elsewhere.
const (
	packageName   = "onnxruntime-node"
	Package       = packageName + "@" + ortlib.Version
	tarballSHA512 = "b7086cd42d82fc1164cf5c9ce4e634288536194aba0d444eee10f86f1e50d90c" +
		"b79c0309c115d6f31537355733136f5503d96894b3987a9a03f1f8d318e7c8ab"
)

// pinned names, by GOOS/GOARCH, the library's member in the package and its digest. To move to another release: change
// ortlib.Version, then put in the digests that `sha512sum` gives of the package (`npm pack`) and `sha256sum` of the
// three members.
var pinned = map[string]library{
	"linux/amd64": {
		member: "package/bin/napi-v6/linux/x64/libonnxruntime.so.1",
		sha256: "ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23",
	},
	"linux/arm64": {
		member: "package/bin/napi-v6/linux/arm64/libonnxruntime.so.1",
		sha256: "1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76",
	},
	"darwin/arm64": {
		member: "package/bin/napi-v6/darwin/arm64/libonnxruntime." + ortlib.Version + ".dylib",
		sha256: "685d2be5dba1309c89d3a5324b7fd06a5c42f1a61bfea32d14c4cc28d072121d",
	},
}

// library is one platform's shared library inside the package.
type library struct {
	member string // path in the tarball
	sha256 string // hex digest of the member
}
