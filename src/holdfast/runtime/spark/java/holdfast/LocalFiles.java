package holdfast;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's files of this machine, checksums and all, but for permissions: without its own native
 * library, Hadoop runs the program `chmod` for every file and folder it makes. Spark makes four
 * files in a batch, six or more in one that keeps state.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Integer mode = Integer.valueOf((int) permission.toShort());
            Files.setAttribute(pathToFile(path).toPath(), "unix:mode", mode, new LinkOption[0]);
        }
    }
}
