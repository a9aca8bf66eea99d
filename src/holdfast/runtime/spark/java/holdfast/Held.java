package holdfast;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.Iterator;
import java.util.List;
import java.util.TreeMap;

/**
 * Slice files of followers, which nobody may ever want: in memory until it is known who publishes.
 *
 * What would be too much goes to disk at once, as a leader's files do.
 */
public class Held {
    private static final long MOST = 32L << 20;
    private static final TreeMap FILES = new TreeMap();
    private static long bytes;

    private Held() {}

    /** Whether a file is held; if not, it must be written. */
    static boolean put(String path, byte[] content) {
        synchronized (FILES) {
            if (bytes + content.length > MOST) return false;
            FILES.put(path, content);
            bytes += content.length;
            return true;
        }
    }

    /** Write files and wait until they are on disk; `paths` is JSON. Those not held are there. */
    public static void write(String paths) throws IOException {
        Iterator wanted = ((List) new ObjectMapper().readValue(paths, List.class)).iterator();
        while (wanted.hasNext()) {
            String path = (String) wanted.next();
            byte[] content;
            synchronized (FILES) {
                content = (byte[]) FILES.get(path);
            }
            if (content != null) write(new File(path), content);
        }
    }

    static void write(File path, byte[] content) throws IOException {
        path.getParentFile().mkdirs();
        FileOutputStream file = new FileOutputStream(path);
        try {
            file.write(content);
            file.getFD().sync();
        } finally {
            file.close();
        }
    }

    /** Forget all files of a folder. */
    public static void forget(String folder) {
        String start = folder.endsWith("/") ? folder : folder + "/";
        synchronized (FILES) {
            Iterator there = FILES.tailMap(start).keySet().iterator();
            while (there.hasNext()) {
                String path = (String) there.next();
                if (!path.startsWith(start)) break;
                bytes -= ((byte[]) FILES.get(path)).length;
                there.remove();
            }
        }
    }

    /** Bytes held by all units of this process. */
    public static long bytes() {
        synchronized (FILES) {
            return bytes;
        }
    }
}
